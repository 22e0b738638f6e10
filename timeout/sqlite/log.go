package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// remember adds the last attempt of a task to the log, with its outcome.
func remember(ctx context.Context, s *session, t *topic, f *found, outcome engine.Outcome, at int64) error {
	var started any
	if !outcome.Started.IsZero() {
		started = outcome.Started.UnixMicro()
	}
	_, err := s.ExecContext(ctx, "INSERT INTO hw_executions (topic, id, version, attempt, node, started, took, state, error, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		t.no, f.id, f.version, f.attempts, f.node, started, int64(outcome.Took), int64(outcome.As), outcome.Error, at)
	return err
}

// Executions implements engine.Log.
func (e *Engine) Executions(ctx context.Context, key engine.Key, limit int) ([]engine.Execution, error) {
	return call(ctx, e, "reading the log", func() ([]engine.Execution, error) {
		return collect(ctx, e.reader, `SELECT version, attempt, node, started, took, x.state, error FROM hw_executions x, hw_topics t
			WHERE t.name = ? AND x.topic = t.no AND x.id = ? ORDER BY x.no DESC LIMIT ? + 0`,
			[]any{key.Topic, key.ID, max(limit, 0)}, func(rows *sql.Rows) (x engine.Execution, err error) {
				var started sql.NullInt64
				err = rows.Scan(&x.Version, &x.Attempt, &x.Node, &started, &x.Took, &x.As, &x.Error)
				if started.Valid {
					x.Started = time.UnixMicro(started.Int64)
				}
				return x, err
			})
	})
}
