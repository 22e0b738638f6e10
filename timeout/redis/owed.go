package redis

import (
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	// owedRest is the pause before slots without an answer are told again of outcomes.
	owedRest = time.Second

	// maxOwed is how many outcomes of a topic are kept. There are no more than this process has
	// leased.
	maxOwed = 100_000
)

// owed are outcomes for slots without an answer, by topic.
type owed struct {
	mu     sync.Mutex
	topics map[string]debt
}

type debt struct {
	outcomes []engine.Outcome
	after    time.Time // when they are tried again
}

// take returns what is to be settled now.
func (o *owed) take(topic string) []engine.Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	d, ok := o.topics[topic]
	if !ok || time.Now().Before(d.after) {
		return nil
	}
	delete(o.topics, topic)
	return d.outcomes
}

// has reports whether outcomes of a topic wait.
func (o *owed) has(topic string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.topics[topic]
	return ok
}

// keep has outcomes be settled later.
func (o *owed) keep(topic string, outcomes []engine.Outcome) {
	if len(outcomes) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.topics == nil {
		o.topics = make(map[string]debt)
	}
	all := append(o.topics[topic].outcomes, outcomes...)
	o.topics[topic] = debt{all[max(0, len(all)-maxOwed):], time.Now().Add(owedRest)}
}
