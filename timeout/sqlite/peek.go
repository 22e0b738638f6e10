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
	"coalesce((SELECT at FROM hw_tasks WHERE topic = t.no AND state = 1 ORDER BY at LIMIT 1), ?1), " +
	"coalesce((SELECT at FROM hw_tasks WHERE topic = t.no AND state = 2 ORDER BY at LIMIT 1), ?1)) " +
	"FROM hw_topics t WHERE name IN (SELECT value FROM json_each(?2))"

// Peek implements engine.Peeker. It looks at all slots of each topic.
func (e *Engine) Peek(ctx context.Context, peeks []engine.Peek) ([]time.Duration, error) {
	return call(ctx, e, "looking when tasks are due", func() ([]time.Duration, error) {
		names := make([]string, len(peeks))
		for i, p := range peeks {
			names[i] = p.Topic
		}
		now := now()
		first, err := times(ctx, e.reader, peekQuery, none, array(names))
		all := make([]time.Duration, len(peeks))
		for i, name := range names {
			if at, found := first[name]; at == none {
				all[i] = engine.NothingDue
			} else if found { // a missing topic has zero
				all[i] = engine.Wait(at - now)
			}
		}
		return all, err
	})
}

// times reads the times of topics.
func times(ctx context.Context, s *session, query string, args ...any) (map[string]int64, error) {
	all := make(map[string]int64)
	err := each(ctx, s, query, args, func(rows *sql.Rows) error {
		var name string
		var at int64
		err := rows.Scan(&name, &at)
		all[name] = at
		return err
	})
	return all, err
}
