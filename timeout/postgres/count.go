package postgres

import (
	"context"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	// cheapCount is the longest time of a count made at each call. The result of a slower one is kept.
	cheapCount = 10 * time.Millisecond

	// countShare is for how many times its own duration a count is kept, for a second at least.
	countShare = 10
)

// counted is a count that took long.
type counted struct {
	engine.Counts
	until time.Time
}

// Count implements engine.Engine. It reads the index, so its time grows with the number of tasks. A
// count of more than 10ms is the answer for a second, or for ten times as long as it took.
func (e *Engine) Count(ctx context.Context, name string) (engine.Counts, error) {
	if e.closed.Load() {
		return engine.Counts{}, engine.ErrClosed
	}
	t, err := e.must(ctx, name)
	if err != nil {
		return engine.Counts{}, err
	}
	e.mu.Lock()
	known := e.counted[t.no]
	e.mu.Unlock()
	begun := time.Now()
	if begun.Before(known.until) {
		return known.Counts, nil
	}
	counts, err := e.count(ctx, name)
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.counted, func(_ int32, old counted) bool { return old.until.Before(begun) }) // of dropped topics, too
	if took := time.Since(begun); err == nil && took > cheapCount {
		e.counted[t.no] = counted{counts, time.Now().Add(max(time.Second, countShare*took))}
	}
	return counts, err
}

func (e *Engine) count(ctx context.Context, name string) (counts engine.Counts, err error) {
	there := false
	err = e.transact(ctx, "counting tasks", func(batch *pgx.Batch) {
		counts, there = engine.Counts{}, false
		batch.Queue(e.sql.Count, name).Query(func(rows pgx.Rows) error {
			var state int16
			var n, due, lag int64
			_, err := pgx.ForEachRow(rows, []any{&state, &n, &due, &lag}, func() error {
				counts.Add(engine.State(state), n)
				switch engine.State(state) {
				case engine.None:
					there = true
				case engine.Pending:
					counts.Due, counts.Lag = due, max(0, time.Duration(lag)*time.Millisecond)
				}
				return nil
			})
			return err
		})
	})
	if err == nil && !there {
		err = notFound(name)
	}
	return counts, err
}
