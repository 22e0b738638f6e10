package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Expire is timeout.Engine's.
func (e *Engine) Expire(ctx context.Context, ask timeout.Ask) (timeout.Batch, error) {
	if err := e.enter(ctx); err != nil {
		return timeout.Batch{}, err
	}
	defer e.mu.Unlock()
	t, err := e.topic(ask.Topic)
	if err != nil {
		return timeout.Batch{}, err
	}
	at := now()
	batch := timeout.Batch{Now: time.UnixMilli(at), Settled: make([]bool, len(ask.Settle))}
	for i, outcome := range ask.Settle {
		batch.Settled[i] = e.settle(t, outcome)
	}
	if ask.Max <= 0 || t.Paused {
		return batch, nil
	}
	slots := t.asked(ask.Slots)
	if err := t.guard(slots, ask.Term, at); err != nil {
		return batch, err
	}
	latest := at - timeout.CeilMillis(ask.Late)
	for len(batch.Leased) < ask.Max {
		en := t.first(slots)
		if en == nil || en.at > latest {
			break
		}
		e.lease(t, en, ask, at, &batch)
	}
	if t.first(slots) != nil {
		batch.Next = batch.Now
	}
	return batch, nil
}

// asked returns those slots that there are.
func (t *topic) asked(slots []int) []int {
	if slots == nil {
		slots = make([]int, t.Slots)
		for i := range slots {
			slots[i] = i
		}
		return slots
	}
	if slices.ContainsFunc(slots, t.strange) {
		slots = slices.DeleteFunc(slices.Clone(slots), t.strange)
	}
	return slots
}

func (t *topic) strange(slot int) bool { return slot < 0 || slot >= t.Slots }

// guard refuses a node whose view is old, see timeout.Ask.
func (t *topic) guard(slots []int, term, at int64) error {
	if term == 0 {
		return nil
	}
	for _, slot := range slots {
		if f := t.fences[slot]; f.term > term && at-f.at < timeout.FenceFor.Milliseconds() {
			return fmt.Errorf("%w: slot %d of topic %s was leased from with term %d, after %d", timeout.ErrFenced, slot, t.Name, f.term, term)
		}
	}
	for _, slot := range slots {
		t.fences[slot] = fence{term, at}
	}
	return nil
}

// first returns what is due first in the slots, or nil.
func (t *topic) first(slots []int) *entry {
	var first *entry
	for _, slot := range slots {
		if h := t.ready[slot]; len(h) > 0 && (first == nil || h[0].at < first.at) {
			first = h[0]
		}
	}
	return first
}

// lease leases what is due, or ends it where it has outlived its last attempt.
func (e *Engine) lease(t *topic, en *entry, ask timeout.Ask, at int64, batch *timeout.Batch) {
	more, again := en.mine(), en.state == timeout.Running
	if again {
		more.failure = fmt.Sprintf("timeout: the lease of %s ended in attempt %d", more.node, en.attempts)
		e.remember(en, timeout.Outcome{As: timeout.Pending, Error: more.failure})
		if int(en.attempts) >= t.Attempts() {
			e.end(en, timeout.Dead)
			batch.Died = append(batch.Died, en.key())
			return
		}
	}
	e.number++
	en.lease, more.node = e.number, ask.Node
	en.attempts++
	en.enter(timeout.Running)
	en.at = at + timeout.CeilMillis(ask.Lease)
	e.file(en)
	batch.Leased = append(batch.Leased, timeout.Leased{
		Task:  en.task(),
		Token: timeout.Token{Key: en.key(), Lease: en.lease},
		Again: again,
	})
}

// settle ends a lease, where it is the last one of its task.
func (e *Engine) settle(t *topic, outcome timeout.Outcome) bool {
	en := t.tasks[outcome.Token.ID]
	if en == nil || en.state != timeout.Running || en.lease != outcome.Token.Lease {
		return false
	}
	if forgotten := outcome.As == timeout.Done && t.Retain == 0; !outcome.Refund && !forgotten {
		e.remember(en, outcome)
	}
	if outcome.As != timeout.Done && !outcome.Refund {
		en.mine().failure = outcome.Error
	}
	if outcome.As != timeout.Pending {
		e.end(en, outcome.As)
		return true
	}
	if outcome.Refund {
		en.attempts--
	}
	en.lease, en.at = 0, outcome.DueAt(now())
	en.enter(timeout.Pending)
	e.file(en)
	return true
}

// remember adds an attempt to a task's log.
func (e *Engine) remember(en *entry, outcome timeout.Outcome) {
	if e.cfg.Executions < 0 {
		return
	}
	more := en.mine()
	if len(more.log) >= e.cfg.Executions {
		more.log = slices.Delete(more.log, 0, len(more.log)-e.cfg.Executions+1)
	}
	more.log = append(more.log, logged{at: now(), Execution: timeout.Execution{
		Version: en.version, Attempt: int(en.attempts), Node: more.node,
		Started: outcome.Started, Took: outcome.Took, As: outcome.As, Error: outcome.Error,
	}})
}

// Executions is timeout.Log's.
func (e *Engine) Executions(ctx context.Context, key timeout.Key, limit int) ([]timeout.Execution, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	en := e.find(key)
	if en == nil || en.more == nil {
		return nil, nil
	}
	until := now() - timeout.CeilMillis(en.topic.RetainLog)
	var log []timeout.Execution
	for _, one := range slices.Backward(en.more.log) {
		if len(log) < limit && one.at > until { // what is older goes with the task: there are a few of each
			log = append(log, one.Execution)
		}
	}
	return log, nil
}

// Extend is timeout.Engine's.
func (e *Engine) Extend(ctx context.Context, tokens []timeout.Token, lease time.Duration) ([]bool, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	held := make([]bool, len(tokens))
	for i, token := range tokens {
		en := e.find(token.Key)
		if en == nil || en.state != timeout.Running || en.lease != token.Lease {
			continue
		}
		held[i] = true
		en.at = now() + timeout.CeilMillis(lease)
		e.file(en)
	}
	return held, nil
}
