package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	maxSweep = 500 // rows of a kind deleted by a call

	// surveyShare is the ratio of the pause after a survey to its duration, at least. There can be
	// many running tasks, such as accepted ones waiting for feedback.
	surveyShare = 50
)

// Upkeep implements engine.Engine. It deletes at most 500 of each: ended tasks, dead tasks beyond
// Topic.MaxDead, tasks of dropped topics, and executions. It shortens at most 500 leases from before
// the clock was stepped back.
func (e *Engine) Upkeep(ctx context.Context) (engine.Swept, error) {
	all, err := e.readTopics(ctx, e.direct(), nil)
	if err != nil {
		return engine.Swept{}, err
	}
	r := newRetention(all)
	var swept engine.Swept
	var dropped, logged int64
	err = e.transact(ctx, "deleting what has ended", func(b *pgx.Batch) {
		swept = engine.Swept{}
		b.Queue(e.sql.Sweep, r.topics, r.ended, r.dead, maxSweep).Query(r.read(&swept))
		b.Queue(e.sql.SweepDropped, maxSweep).Exec(count64(&dropped))
		b.Queue(e.sql.SweepLog, r.topics, r.log, maxSweep).Exec(count64(&logged))
		b.Queue(e.sql.SweepRest)
	})
	if err != nil {
		return engine.Swept{}, err
	}
	swept.More = swept.More || dropped == maxSweep || logged == maxSweep
	surveyed, err := e.survey(ctx, r)
	swept.Add(surveyed)
	return swept, err
}

// survey looks at all dead and running tasks. It deletes dead tasks beyond Topic.MaxDead. If leases
// were made before the clock was stepped back, they end as if made now.
func (e *Engine) survey(ctx context.Context, r *retention) (swept engine.Swept, err error) {
	began := time.Now()
	e.mu.Lock()
	pause := began.Before(e.surveyAt)
	e.mu.Unlock()
	if pause {
		return swept, nil
	}
	var shortened int64
	err = e.transact(ctx, "deleting what is dead and shortening leases", func(b *pgx.Batch) {
		swept = engine.Swept{}
		b.Queue(e.sql.SweepDead, r.bounded, r.most, maxSweep).Query(r.read(&swept))
		b.Queue(e.sql.Shorten, r.topics, maxSweep).Exec(count64(&shortened))
	})
	if err != nil {
		swept = engine.Swept{}
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

// retention is the retention times, in milliseconds, and dead-task limits of topics, as arguments
// of statements.
type retention struct {
	names            map[int32]string
	topics           []int32
	ended, dead, log []int64

	// bounded are the topics with a limit of dead tasks, most.
	bounded []int32
	most    []int64
}

func newRetention(topics []*topic) *retention {
	r := &retention{names: make(map[int32]string, len(topics))}
	for _, t := range topics {
		kept := t.WithDefaults() // the topics of an earlier version lack some
		r.names[t.no] = t.Name
		r.topics = append(r.topics, t.no)
		r.ended = append(r.ended, engine.CeilMillis(kept.Retain))
		r.dead = append(r.dead, engine.CeilMillis(kept.RetainDead))
		r.log = append(r.log, engine.CeilMillis(kept.RetainLog))
		if kept.MaxDead >= 0 {
			r.bounded = append(r.bounded, t.no)
			r.most = append(r.most, int64(kept.MaxDead))
		}
	}
	return r
}

// read reads the numbers of deleted tasks, by topic and whether they were dead.
func (r *retention) read(swept *engine.Swept) func(pgx.Rows) error {
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
