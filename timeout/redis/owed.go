package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	// owedRest is the pause before slots without an answer are told again of outcomes.
	owedRest = time.Second

	// maxOwed is how many outcomes of a topic are kept for a server. There are no more than this process has
	// leased.
	maxOwed = 100_000
)

// owed are outcomes for slots without an answer, by topic. Outcomes for a busy server are apart, by its lane: they
// go with the next question to it. The lane of the others is zero.
type owed struct {
	mu     sync.Mutex
	topics map[string]map[int]*debt
	repaid map[string]bool // the topics with a repay under way
}

type debt struct {
	outcomes []engine.Outcome
	after    time.Time // when they are tried again
}

// take returns what is to be settled now, but for busy servers.
func (o *owed) take(topic string, busy map[int]int) (outcomes []engine.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	for lane, d := range o.topics[topic] {
		if busy[lane] == 0 && !now.Before(d.after) {
			outcomes = append(outcomes, d.outcomes...)
			delete(o.topics[topic], lane)
		}
	}
	if len(o.topics[topic]) == 0 {
		delete(o.topics, topic)
	}
	return outcomes
}

// takeAll returns everything, by topic.
func (o *owed) takeAll() map[string][]engine.Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[string][]engine.Outcome)
	for topic, debts := range o.topics {
		for _, d := range debts {
			all[topic] = append(all[topic], d.outcomes...)
		}
	}
	clear(o.topics)
	return all
}

// owes reports whether outcomes of a topic wait for a server to be no longer busy.
func (o *owed) owes(topic string, lane int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.topics[topic][lane] != nil
}

// keep has an outcome be settled later. It reports whether nothing repays the topic yet.
func (o *owed) keep(topic string, lane int, outcome engine.Outcome) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.topics[topic] == nil {
		o.topics[topic] = make(map[int]*debt)
	}
	d := o.topics[topic][lane]
	if d == nil {
		d = new(debt)
		if lane == 0 { // later ones don't put it off
			d.after = time.Now().Add(owedRest)
		}
		o.topics[topic][lane] = d
	}
	d.outcomes = append(d.outcomes, outcome)
	d.outcomes = d.outcomes[max(0, len(d.outcomes)-maxOwed):]
	first = !o.repaid[topic]
	o.repaid[topic] = true
	return first
}

// clear reports whether nothing of a topic is owed any more. Then it is repaid.
func (o *owed) clear(topic string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.topics[topic]) > 0 {
		return false
	}
	delete(o.repaid, topic)
	return true
}

// owe has an outcome be settled by the next call of Expire, or by the engine: nobody may call, since a worker has
// no room, is paused or has ended.
func (e *Engine) owe(topic string, lane int, outcome engine.Outcome) {
	if e.owed.keep(topic, lane, outcome) {
		e.late.begin(func() { e.repay(topic) })
	}
}

// repay settles what is owed of a topic, until there is nothing more or the engine ends.
func (e *Engine) repay(topic string) {
	for !e.owed.clear(topic) {
		select {
		case <-time.After(owedRest):
			e.settle(topic, owedRest, e.owed.take(topic, e.late.lanes(topic)))
		case <-e.late.over:
			return
		}
	}
}

// settle tells outcomes. If it fails, it owes them. With a lease it waits for no slow server.
func (e *Engine) settle(topic string, lease time.Duration, outcomes []engine.Outcome) {
	if len(outcomes) == 0 {
		return
	}
	_, err := e.Expire(context.Background(), engine.Ask{Topic: topic, Lease: lease, Settle: outcomes}) // the client has timeouts of its own
	if err == nil || errors.Is(err, engine.ErrNotFound) {
		return
	}
	for _, outcome := range outcomes {
		e.owe(topic, 0, outcome)
	}
}
