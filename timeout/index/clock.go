package index

import (
	"sync"
	"time"
)

// clock knows how far the index's clock is ahead of the truth's. Where they differ, the index
// would find tasks by so much too late, or too early, and then the truth refuses them.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

// clockNoise is what two clocks may differ by: it is not worth writing entries anew.
const clockNoise = 50 * time.Millisecond

// reading is what a clock said.
type reading struct {
	said  time.Time
	at    time.Time     // by this node's clock, in the middle of the call
	slack time.Duration // how much later or earlier it may have been
}

func read(said, began time.Time) reading {
	half := time.Since(began) / 2
	return reading{said, began.Add(half), half}
}

// compare looks at both clocks, and reports whether they differ by something else than they
// were thought to.
func (c *clock) compare(truth, index reading) bool {
	ahead := index.said.Sub(truth.said) - index.at.Sub(truth.at)
	c.mu.Lock()
	defer c.mu.Unlock()
	if (ahead - c.ahead).Abs() <= truth.slack+index.slack+clockNoise {
		return false
	}
	c.ahead = ahead
	return true
}

// ofIndex is a time of the truth's clock by that of the index.
func (c *clock) ofIndex(at time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if by := at.Add(c.ahead); by.UnixMilli() > 0 { // what is before is no time of a task
		return by
	}
	return at
}

// ofTruth is the reverse.
func (c *clock) ofTruth(at time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return at.Add(-c.ahead)
}
