package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Peek implements engine.Peeker. It looks at all slots of each topic, by one statement.
func (e *Engine) Peek(ctx context.Context, peeks []engine.Peek) ([]time.Duration, error) {
	names := make([]string, len(peeks))
	for i, p := range peeks {
		names[i] = p.Topic
	}
	var waits map[string]time.Duration
	err := e.transact(ctx, "looking when tasks are due", func(b *pgx.Batch) {
		waits = make(map[string]time.Duration, len(names))
		b.Queue(e.sql.PeekAll, names).Query(func(rows pgx.Rows) error {
			var name string
			var ms *int64
			_, err := pgx.ForEachRow(rows, []any{&name, &ms}, func() error {
				waits[name] = engine.NothingDue
				if ms != nil {
					waits[name] = engine.Wait(*ms)
				}
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	all := make([]time.Duration, len(peeks))
	for i, name := range names {
		all[i] = waits[name] // zero for a missing topic
	}
	return all, nil
}
