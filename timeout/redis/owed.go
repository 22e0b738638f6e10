package redis

import (
	"maps"
	"slices"
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

// has reports whether outcomes of a topic wait.
func (o *owed) has(topic string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.topics[topic]) > 0
}

// owes reports whether outcomes of a topic wait for a server to be no longer busy.
func (o *owed) owes(topic string, lane int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.topics[topic][lane] != nil
}

// all returns the topics with outcomes.
func (o *owed) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.topics))
}

// keep has an outcome be settled later.
func (o *owed) keep(topic string, lane int, outcome engine.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.topics == nil {
		o.topics = make(map[string]map[int]*debt)
	}
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
}
