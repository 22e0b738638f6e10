package sqlkit

import (
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	// slowCount is how long a count may take to be made anew for each call.
	slowCount = 100 * time.Millisecond

	// countShare is for how many times as long as it took another one is used: so counting
	// takes a twentieth of a connection's time at most, however often it is asked for.
	countShare = 20
)

// Add adds tasks of a state to counts.
func Add(counts *timeout.Counts, state timeout.State, n int64) {
	switch state {
	case timeout.Pending:
		counts.Pending += n
	case timeout.Running:
		counts.Running += n
	case timeout.Done:
		counts.Done += n
	case timeout.Dead:
		counts.Dead += n
	case timeout.Removed:
		counts.Removed += n
	}
}

// Counter keeps counts that took long.
type Counter struct {
	mu   sync.Mutex
	kept map[string]count
}

type count struct {
	counts timeout.Counts
	until  time.Time
}

// Get returns the counts of a topic, be it those that were made a while ago.
func (c *Counter) Get(topic string, make1 func() (timeout.Counts, error)) (timeout.Counts, error) {
	c.mu.Lock()
	kept, ok := c.kept[topic]
	c.mu.Unlock()
	begun := time.Now()
	if ok && begun.Before(kept.until) {
		return kept.counts, nil
	}
	counts, err := make1()
	now := time.Now()
	took := now.Sub(begun)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.kept, topic)
	if err == nil && took > slowCount {
		if c.kept == nil {
			c.kept = make(map[string]count)
		}
		c.kept[topic] = count{counts, now.Add(countShare * took)}
	}
	return counts, err
}
