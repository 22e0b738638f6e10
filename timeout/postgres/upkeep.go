package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	maxSweep = 500 // rows of a kind that a call deletes

	// surveyShare is how much longer than a look at all that runs or is dead took the pause
	// after it is at least: that can be a lot, such as what was accepted and waits for feedback.
	surveyShare = 50
)

// Upkeep is timeout.Engine's: it deletes at most 500 of each, tasks that have ended, those that
// are dead beyond Topic.MaxDead, those of topics that were dropped, and executions, and shortens
// at most 500 leases from before the clock was stepped back. The term is not looked at.
func (e *Engine) Upkeep(ctx context.Context, _ int64) (timeout.Swept, error) {
	all, err := e.readTopics(ctx, e.direct(), nil)
	if err != nil {
		return timeout.Swept{}, err
	}
	r := newRetention(all)
	var swept timeout.Swept
	var dropped, logged int64
	err = e.transact(ctx, "deleting what has ended", func(b *pgx.Batch) {
		swept = timeout.Swept{}
		b.Queue(e.sql.Sweep, r.topics, r.ended, r.dead, maxSweep).Query(r.read(&swept))
		b.Queue(e.sql.SweepDropped, maxSweep).Exec(count64(&dropped))
		b.Queue(e.sql.SweepLog, r.topics, r.log, maxSweep).Exec(count64(&logged))
		b.Queue(e.sql.SweepRest)
	})
	if err != nil {
		return timeout.Swept{}, err
	}
	swept.More = swept.More || dropped == maxSweep || logged == maxSweep
	surveyed, err := e.survey(ctx, r)
	swept.Add(surveyed)
	return swept, err
}

// survey does what takes a look at all that is dead or runs: it deletes what is too much of the
// one, and has those leases of the other, and the fences, that were made before the clock was
// stepped back end as if they had been made now.
func (e *Engine) survey(ctx context.Context, r *retention) (swept timeout.Swept, err error) {
	began := time.Now()
	e.mu.Lock()
	pause := began.Before(e.surveyAt)
	e.mu.Unlock()
	if pause {
		return swept, nil
	}
	var shortened int64
	err = e.transact(ctx, "deleting what is dead and shortening leases", func(b *pgx.Batch) {
		swept = timeout.Swept{}
		b.Queue(e.sql.SweepDead, r.bounded, r.most, maxSweep).Query(r.read(&swept))
		b.Queue(e.sql.Shorten, r.topics, maxSweep).Exec(count64(&shortened))
		b.Queue(e.sql.ShortenFences)
	})
	if err != nil {
		swept = timeout.Swept{}
	}
	swept.More = swept.More || err == nil && shortened == maxSweep
	e.mu.Lock()
	defer e.mu.Unlock()
	if !swept.More {
		now := time.Now()
		e.surveyAt = now.Add(surveyShare * now.Sub(began))
	}
	return swept, err
}

// retention is for how long topics keep what, in milliseconds, and how much of it, as the
// arguments of statements.
type retention struct {
	names            map[int32]string
	topics           []int32
	ended, dead, log []int64

	// bounded are those that keep only so much of what is dead.
	bounded []int32
	most    []int64
}

func newRetention(topics []*topic) *retention {
	r := &retention{names: make(map[int32]string, len(topics))}
	for _, t := range topics {
		kept := t.WithDefaults() // what was set by an earlier version lacks some
		r.names[t.no] = t.Name
		r.topics = append(r.topics, t.no)
		r.ended = append(r.ended, timeout.CeilMillis(kept.Retain))
		r.dead = append(r.dead, timeout.CeilMillis(kept.RetainDead))
		r.log = append(r.log, timeout.CeilMillis(kept.RetainLog))
		if kept.MaxDead >= 0 {
			r.bounded = append(r.bounded, t.no)
			r.most = append(r.most, int64(kept.MaxDead))
		}
	}
	return r
}

// read reads how many tasks of which topic a statement has deleted, and whether they were dead.
func (r *retention) read(swept *timeout.Swept) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var no int32
		var dead bool
		var n, all int
		_, err := pgx.ForEachRow(rows, []any{&no, &dead, &n}, func() error {
			if all += n; dead {
				swept.AddDead(r.names[no], n)
			}
			swept.More = all == maxSweep
			return nil
		})
		return err
	}
}
