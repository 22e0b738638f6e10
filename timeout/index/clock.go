package index

import (
	"sync"
	"time"
)

// clock knows how far the index's clock is ahead of the primary's. Without a correction the index
// would find tasks late, or find them early and have them refused by the primary.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

// clockNoise is a difference of the clocks too small to write the entries again.
const clockNoise = 50 * time.Millisecond

// reading is one reading of a clock.
type reading struct {
	said  time.Time
	at    time.Time     // time of the reading by this node's clock: the middle of the call
	slack time.Duration // possible error of at, in both directions
}

func read(said, began time.Time) reading {
	half := time.Since(began) / 2
	return reading{said, began.Add(half), half}
}

// compare compares both clocks. It reports whether their difference has changed, and stores the
// new one.
func (c *clock) compare(primary, index reading) bool {
	ahead := index.said.Sub(primary.said) - index.at.Sub(primary.at)
	c.mu.Lock()
	defer c.mu.Unlock()
	if (ahead - c.ahead).Abs() <= primary.slack+index.slack+clockNoise {
		return false
	}
	c.ahead = ahead
	return true
}

// ofIndex converts a time of the primary's clock to the index's clock.
func (c *clock) ofIndex(at time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if by := at.Add(c.ahead); by.UnixMilli() > 0 { // no task has an earlier time
		return by
	}
	return at
}

// ofPrimary converts a time of the index's clock to the primary's clock.
func (c *clock) ofPrimary(at time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return at.Add(-c.ahead)
}
