package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// peekQuery reads the time of the first task of each topic, in any slot. It takes the times of
// the index, and a moved task is due later.
const peekQuery = "SELECT name, min(" +
	"coalesce((SELECT at FROM hw_tasks WHERE topic = t.no AND state = 1 ORDER BY at LIMIT 1), ?2), " +
	"coalesce((SELECT at FROM hw_tasks WHERE topic = t.no AND state = 2 ORDER BY at LIMIT 1), ?2)) " +
	"FROM hw_topics t WHERE name IN (SELECT value FROM json_each(?1))"

// Peek implements engine.Peeker. It looks at all slots of each topic.
func (e *Engine) Peek(ctx context.Context, peeks []engine.Peek) ([]time.Duration, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.use.RUnlock()
	names := make([]string, len(peeks))
	for i, p := range peeks {
		names[i] = p.Topic
	}
	waits := make(map[string]time.Duration, len(names))
	now := now()
	err := each(ctx, e.reader, peekQuery, []any{array(names), none}, func(rows *sql.Rows) error {
		var name string
		var at int64
		err := rows.Scan(&name, &at)
		waits[name] = engine.NothingDue
		if at != none {
			waits[name] = engine.Wait(at - now)
		}
		return err
	})
	if err != nil {
		return nil, e.wrap("looking when tasks are due", err)
	}
	all := make([]time.Duration, len(peeks))
	for i, name := range names {
		all[i] = waits[name] // zero for a missing topic
	}
	return all, nil
}
