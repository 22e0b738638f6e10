package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// execution is an attempt for the log.
type execution struct {
	engine.Execution
	id string
	at int64 // time of the log entry, in milliseconds since the epoch
}

func executionOf(h *held, outcome engine.Outcome, at int64) execution {
	return execution{id: h.id, at: at, Execution: engine.Execution{
		Version: h.version, Attempt: h.attempts, Node: h.node,
		Started: outcome.Started, Took: outcome.Took, As: outcome.As, Error: outcome.Error,
	}}
}

func (e execution) insert(ctx context.Context, s session, t *topic) error {
	var started any
	if !e.Started.IsZero() {
		started = e.Started.UnixMicro()
	}
	_, err := s.ExecContext(ctx, "INSERT INTO hw_executions (topic, id, version, attempt, node, started, took, state, error, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		t.no, e.id, e.Version, e.Attempt, e.Node, started, int64(e.Took), int64(e.As), e.Error, e.at)
	return err
}

// Executions implements engine.Log.
func (e *Engine) Executions(ctx context.Context, key engine.Key, limit int) ([]engine.Execution, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.use.RUnlock()
	var log []engine.Execution
	err := each(ctx, e.reader, `SELECT version, attempt, node, started, took, x.state, error FROM hw_executions x, hw_topics t
		WHERE t.name = ? AND x.topic = t.no AND x.id = ? ORDER BY x.no DESC LIMIT ? + 0`,
		[]any{key.Topic, key.ID, max(limit, 0)}, func(rows *sql.Rows) error {
			var x engine.Execution
			var started sql.NullInt64
			err := rows.Scan(&x.Version, &x.Attempt, &x.Node, &started, &x.Took, &x.As, &x.Error)
			if started.Valid {
				x.Started = time.UnixMicro(started.Int64)
			}
			log = append(log, x)
			return err
		})
	return log, e.wrap("reading the log", err)
}
