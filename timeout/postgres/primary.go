package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/internal/cursor"
)

// ScanBefore implements engine.Primary. The tasks are in the order of their times, except for those that
// another transaction changes at that moment.
func (e *Engine) ScanBefore(ctx context.Context, name string, asked []int, until time.Time, after string, limit int) (engine.ScanPage, error) {
	at, id, err := cursor.Read(after)
	if err != nil {
		return engine.ScanPage{}, err
	}
	t, err := e.must(ctx, name)
	if err != nil {
		return engine.ScanPage{}, err
	}
	s := newSlots(t, engine.Ask{Slots: asked})
	var page engine.ScanPage
	var there int
	var lastAt int64
	var lastID string
	err = e.transact(ctx, "scanning "+name, func(b *pgx.Batch) {
		page, there = engine.ScanPage{}, 0
		b.Queue(e.sql.ScanBefore, name, at, id, engine.Millis(until), s.wanted, s.mask, limit).Query(func(rows pgx.Rows) error {
			var w engine.Wanted
			var due int64
			_, err := pgx.ForEachRow(rows, []any{&there, &lastAt, &lastID, &w.ID, &w.Version, &due}, func() error {
				if w.ID != "" {
					w.At = time.UnixMilli(due)
					page.Wanted = append(page.Wanted, w)
				}
				return nil
			})
			return err
		})
	})
	if err != nil {
		return engine.ScanPage{}, err
	}
	if there > 0 && there == limit {
		page.Next, page.Until = cursor.Write(lastAt, lastID), time.UnixMilli(lastAt)
	}
	return page, nil
}

// Claim implements engine.Primary. It skips tasks locked by another call at that moment. Of each
// thousand tasks it claims at most about 4 MiB of payload: the task over the limit is the last.
func (e *Engine) Claim(ctx context.Context, name, node string, wanted []engine.Wanted, lease time.Duration) ([]engine.Claimed, error) {
	t, err := e.must(ctx, name)
	if err != nil {
		return nil, err
	}
	t.frontier.leases(engine.CeilMillis(lease))
	claimed := make([]engine.Claimed, 0, len(wanted))
	for some := range slices.Chunk(wanted, maxChunk) {
		more, err := e.claim(ctx, t, node, some, lease)
		if err != nil && len(claimed) == 0 {
			return nil, err
		}
		if err != nil { // it must not lose the leased tasks: the rest can be wanted again
			break
		}
		claimed = append(claimed, more...)
	}
	for _, w := range wanted[len(claimed):] {
		claimed = append(claimed, engine.Claimed{At: w.At})
	}
	return claimed, nil
}

func (e *Engine) claim(ctx context.Context, t *topic, node string, wanted []engine.Wanted, lease time.Duration) ([]engine.Claimed, error) {
	claimed := make([]engine.Claimed, len(wanted))
	ids, versions := make([]string, len(wanted)), make([]int64, len(wanted))
	for i, w := range wanted {
		ids[i], versions[i] = clean(w.ID), w.Version
	}
	return claimed, e.transact(ctx, "claiming tasks of "+t.Name, func(b *pgx.Batch) {
		clear(claimed)
		b.Queue(e.sql.Claim, t.no, ids, versions, engine.CeilMillis(lease), clean(node), maxBytes).Query(func(rows pgx.Rows) error {
			var l leases
			err := l.read(rows, t.Name)
			for i, leased := range l.leased {
				claimed[l.numbers[i]-1] = engine.Claimed{OK: true, Leased: leased}
			}
			return err
		})
		b.Queue(e.sql.Wanted, t.no, ids, versions).Query(func(rows pgx.Rows) error {
			var n, at int64
			_, err := pgx.ForEachRow(rows, []any{&n, &at}, func() error {
				if c := &claimed[n-1]; !c.OK {
					c.At = time.UnixMilli(at)
				}
				return nil
			})
			return err
		})
	})
}
