package postgres

import (
	"context"
	"sync"
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

type counts struct {
	mu    sync.Mutex
	known map[string]count
}

type count struct {
	engine.Counts
	until time.Time
}

// Count implements engine.Engine. It reads the index, so its time grows with the number of tasks. A
// count of more than 10ms is the answer for a second, or for ten times as long as it took.
func (e *Engine) Count(ctx context.Context, name string) (engine.Counts, error) {
	if e.closed.Load() {
		return engine.Counts{}, engine.ErrClosed
	}
	e.counts.mu.Lock()
	known, ok := e.counts.known[name]
	e.counts.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.Counts, nil
	}
	begun := time.Now()
	counted, err := e.countAnew(ctx, name)
	e.counts.mu.Lock()
	defer e.counts.mu.Unlock()
	delete(e.counts.known, name)
	if took := time.Since(begun); err == nil && took > cheapCount {
		e.counts.known[name] = count{counted, time.Now().Add(max(time.Second, countShare*took))}
	}
	return counted, err
}

// countAnew counts the tasks of a topic. It tries a second time if the topic is missing: it may have
// been dropped and made again since it was read.
func (e *Engine) countAnew(ctx context.Context, name string) (counted engine.Counts, err error) {
	for range 2 {
		t, err := e.must(ctx, name)
		if err != nil {
			return counted, err
		}
		counted, there, err := e.count(ctx, t)
		if err != nil || there {
			return counted, err
		}
		e.topics.forget(name)
	}
	return counted, notFound(name)
}

// count also reports whether the topic exists.
func (e *Engine) count(ctx context.Context, t *topic) (counted engine.Counts, there bool, err error) {
	err = e.transact(ctx, "counting tasks", func(batch *pgx.Batch) {
		counted, there = engine.Counts{}, false
		batch.Queue(e.sql.Count, t.no).Query(func(rows pgx.Rows) error {
			var state int16
			var n, due, lag int64
			_, err := pgx.ForEachRow(rows, []any{&state, &n, &due, &lag}, func() error {
				counted.Add(engine.State(state), n)
				switch engine.State(state) {
				case engine.None:
					there = true
				case engine.Pending:
					counted.Due, counted.Lag = due, max(0, time.Duration(lag)*time.Millisecond)
				}
				return nil
			})
			return err
		})
	})
	return counted, there, err
}

func (c *counts) forget(topic string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, topic)
}
