package memory

import (
	"context"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Lease is engine.Engine's.
func (e *Engine) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	return in(ctx, e, ask.Topic, func(t *topic) engine.Batch {
		asked := time.Now()
		e.follow(asked)
		at := asked.UnixMilli()
		batch := engine.Batch{Now: time.UnixMilli(at), Settled: make([]bool, len(ask.Settle))}
		for i, outcome := range ask.Settle {
			batch.Settled[i] = e.settle(t, outcome)
		}
		if ask.Max <= 0 || t.Paused {
			batch.Next = t.PausedUntil
			return batch
		}
		slots := t.Asked(ask.Slots)
		latest := at - engine.CeilMillis(ask.OverdueBy)
		en := t.first(slots)
		for ; en != nil && en.at <= latest && len(batch.Leased) < ask.Max; en = t.first(slots) {
			batch.Leased = append(batch.Leased, e.lease(en, ask, asked))
		}
		if en != nil {
			batch.Next = time.UnixMilli(max(en.at, at))
		}
		return batch
	})
}

// first returns the task with the earliest time in the slots, or nil.
func (t *topic) first(slots []int) *entry {
	var first *entry
	for _, slot := range slots {
		if h := t.slots[slot]; len(h) > 0 && (first == nil || h[0].at < first.at) {
			first = h[0]
		}
	}
	return first
}

// lease leases a due task.
func (e *Engine) lease(en *entry, ask engine.Ask, asked time.Time) engine.Leased {
	more, again := en.mine(), en.state == engine.Running
	if again {
		more.failure = engine.LeaseEnded(more.node, int(en.attempts))
		e.remember(en, engine.Outcome{As: engine.Pending, Error: more.failure})
	}
	e.number++
	more.lease, more.node = e.number, ask.Node
	en.attempts++
	e.hold(en, asked, ask.Lease)
	return engine.Leased{
		Task:  en.task(),
		Token: engine.Token{Key: en.key(), Lease: more.lease},
		Again: again,
	}
}

// hold makes a lease last that long, from a reading of the clock on.
func (e *Engine) hold(en *entry, from time.Time, lease time.Duration) {
	at := from.UnixMilli() + engine.CeilMillis(lease)
	en.more.ends = at - e.clockAhead(from)
	e.enter(en, engine.Running, at)
}

// settle ends a lease if it is the last one of its task.
func (e *Engine) settle(t *topic, outcome engine.Outcome) bool {
	en := t.tasks.Get(outcome.Token.ID)
	if !en.leased(outcome.Token) {
		return false
	}
	pending := outcome.As == engine.Pending
	newRun := pending && outcome.NewRun
	release := outcome.Release && outcome.As != engine.Done
	if newRun {
		if outcome.As = engine.Done; outcome.Error != "" {
			outcome.As = engine.Dead
		}
	}
	if forgotten := outcome.As == engine.Done && t.Retain == 0; !release && !forgotten {
		e.remember(en, outcome)
	}
	if outcome.As == engine.Dead || newRun || pending && !release {
		en.mine().failure = outcome.Error
	}
	if release {
		en.attempts--
	}
	if !pending {
		e.end(en, outcome.As)
		return true
	}
	at := outcome.DueAt(from(outcome.After))
	if newRun {
		succeeded := 0
		if outcome.As == engine.Done && !release {
			succeeded = 1
		}
		en.begin(succeeded)
		en.more.node, en.due = "", at
	}
	e.enter(en, engine.Pending, at)
	return true
}

// remember adds an attempt to a task's log.
func (e *Engine) remember(en *entry, outcome engine.Outcome) {
	if e.cfg.Executions < 0 {
		return
	}
	more := en.mine()
	if len(more.log) >= e.cfg.Executions {
		more.log = slices.Delete(more.log, 0, len(more.log)-e.cfg.Executions+1)
	}
	more.log = append(more.log, logged{at: now(), Execution: engine.Execution{
		Version: en.version, Attempt: int(en.attempts), Node: more.node,
		Started: outcome.Started, Took: outcome.Took, As: outcome.As, Error: outcome.Error,
	}})
}

// Executions is engine.Log's.
func (e *Engine) Executions(ctx context.Context, key engine.Key, limit int) ([]engine.Execution, error) {
	return call(ctx, e, func() (log []engine.Execution, _ error) {
		en := e.find(key)
		if en == nil || en.more == nil {
			return nil, nil
		}
		until := now() - engine.CeilMillis(en.topic.RetainLog)
		for _, one := range slices.Backward(en.more.log) {
			if len(log) < limit && one.at > until { // older ones stay until the task goes: there are few of each
				log = append(log, one.Execution)
			}
		}
		return log, nil
	})
}

// Extend is engine.Engine's.
func (e *Engine) Extend(ctx context.Context, tokens []engine.Token, lease time.Duration) ([]bool, error) {
	return each(ctx, e, tokens, func(token engine.Token) bool {
		en := e.find(token.Key)
		held := en.leased(token)
		if held {
			e.hold(en, time.Now(), lease)
		}
		return held
	})
}
