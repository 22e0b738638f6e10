package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	maxPurge = 500 // rows of a kind deleted by a call

	// surveyShare is the ratio of the pause after a survey to its duration, at least. There can be
	// many running tasks, such as accepted ones waiting for feedback.
	surveyShare = 50
)

// Maintain implements engine.Engine. It deletes at most 500 of each: ended tasks, dead tasks beyond
// Topic.MaxDead, tasks of dropped topics, and executions. It shortens at most 500 leases from before
// the clock was stepped back.
func (e *Engine) Maintain(ctx context.Context) (engine.Purged, error) {
	all, err := e.readTopics(ctx, e.direct(), nil)
	if err != nil {
		return engine.Purged{}, err
	}
	r := newRetention(all)
	var purged engine.Purged
	var dropped, logged int64
	err = e.transact(ctx, "deleting what has ended", func(b *pgx.Batch) {
		purged = engine.Purged{}
		b.Queue(e.sql.Purge, r.topics, r.ended, r.dead, maxPurge).Query(r.read(&purged))
		b.Queue(e.sql.PurgeDropped, maxPurge).Exec(count64(&dropped))
		b.Queue(e.sql.PurgeLog, r.topics, r.log, maxPurge).Exec(count64(&logged))
		b.Queue(e.sql.PurgeRest)
	})
	if err != nil {
		return engine.Purged{}, err
	}
	purged.More = purged.More || dropped == maxPurge || logged == maxPurge
	surveyed, err := e.survey(ctx, r)
	purged.Add(surveyed)
	return purged, err
}

// survey looks at all dead and running tasks. It deletes dead tasks beyond Topic.MaxDead. If leases
// were made before the clock was stepped back, they end as if made now.
func (e *Engine) survey(ctx context.Context, r *retention) (purged engine.Purged, err error) {
	began := time.Now()
	e.mu.Lock()
	pause := began.Before(e.surveyAt)
	e.mu.Unlock()
	if pause {
		return purged, nil
	}
	var shortened int64
	err = e.transact(ctx, "deleting what is dead and shortening leases", func(b *pgx.Batch) {
		purged = engine.Purged{}
		b.Queue(e.sql.PurgeDead, r.bounded, r.most, maxPurge).Query(r.read(&purged))
		b.Queue(e.sql.Shorten, r.topics, maxPurge).Exec(count64(&shortened))
	})
	if err != nil {
		purged = engine.Purged{}
	}
	purged.More = purged.More || err == nil && shortened == maxPurge
	e.mu.Lock()
	defer e.mu.Unlock()
	if !purged.More {
		now := time.Now()
		e.surveyAt = now.Add(surveyShare * now.Sub(began))
	}
	return purged, err
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
func (r *retention) read(purged *engine.Purged) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var no int32
		var dead bool
		var n, all int
		_, err := pgx.ForEachRow(rows, []any{&no, &dead, &n}, func() error {
			if all += n; dead {
				purged.AddDead(r.names[no], n)
			}
			purged.More = all == maxPurge
			return nil
		})
		return err
	}
}
