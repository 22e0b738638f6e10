package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	maxSweep = 500 // rows of a kind that a call deletes

	// shortenShare is how much longer than a look at all that runs took the pause after it is
	// at least: it can be a lot that runs, such as what was accepted and waits for feedback.
	shortenShare = 50
)

// Upkeep is timeout.Engine's: it deletes at most 500 of each, tasks that have ended, those of
// topics that were dropped, and executions, and shortens at most 500 leases from before the
// clock was stepped back. The term is not looked at.
func (e *Engine) Upkeep(ctx context.Context, _ int64) (swept timeout.Swept, err error) {
	all, err := e.readTopics(ctx, e.direct(), nil)
	if err != nil {
		return swept, err
	}
	numbers, retain, keep := make([]int32, len(all)), make([]int64, len(all)), make([]int64, len(all))
	for i, t := range all {
		numbers[i] = t.no
		retain[i], keep[i] = timeout.CeilMillis(t.Retain), timeout.CeilMillis(t.WithDefaults().RetainLog)
	}
	e.mu.Lock()
	from := e.swept
	e.mu.Unlock()
	var ended, dropped, last, page, logged int64
	err = e.transact(ctx, "deleting what has ended", func(b *pgx.Batch) {
		b.Queue(e.sql.Sweep, numbers, retain, maxSweep).Exec(count64(&ended))
		b.Queue(e.sql.SweepDropped, maxSweep).Exec(count64(&dropped))
		b.Queue(e.sql.SweepLog, from, maxSweep, numbers, keep).QueryRow(func(row pgx.Row) error {
			return row.Scan(&last, &page, &logged)
		})
		b.Queue(e.sql.SweepRest)
	})
	if err != nil {
		return swept, err
	}
	if page < maxSweep {
		last = 0 // from the beginning, next time
	}
	e.mu.Lock()
	e.swept = last
	e.mu.Unlock()
	shortened, err := e.shorten(ctx, numbers)
	swept.More = ended == maxSweep || dropped == maxSweep || page == maxSweep && logged > 0 || shortened
	return swept, err
}

// shorten has leases and fences that were made before the clock was stepped back end as if
// they had been made now. It reports whether there may be more of them.
func (e *Engine) shorten(ctx context.Context, topics []int32) (more bool, err error) {
	began := time.Now()
	e.mu.Lock()
	pause := began.Before(e.shortenAt)
	e.mu.Unlock()
	if pause {
		return false, nil
	}
	var n int64
	err = e.transact(ctx, "shortening leases", func(b *pgx.Batch) {
		b.Queue(e.sql.Shorten, topics, maxSweep).Exec(count64(&n))
		b.Queue(e.sql.ShortenFences)
	})
	more = err == nil && n == maxSweep
	e.mu.Lock()
	defer e.mu.Unlock()
	if !more {
		now := time.Now()
		e.shortenAt = now.Add(shortenShare * now.Sub(began))
	}
	return more, err
}
