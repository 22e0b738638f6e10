package api

import (
	"context"
	"sync"
	"time"
)

const (
	// minFresh is the least time for which figures are reused.
	minFresh = 500 * time.Millisecond

	// freshShare bounds the engine's time for figures to a tenth of the whole.
	freshShare = 10
)

// cache keeps the last figures. Only one caller takes new ones at a time. Other callers wait
// for them.
type cache struct {
	mu     sync.Mutex
	taking chan struct{} // closed when the new figures are there; nil if nobody takes any
	last   Stats
	fresh  time.Time // until when last is reused
	number uint64    // of calls of forget
}

// get returns figures, or an error if ctx is done before they are there.
func (c *cache) get(ctx context.Context, take func() Stats) (Stats, error) {
	for {
		c.mu.Lock()
		switch {
		case c.taking == nil && time.Now().Before(c.fresh):
			defer c.mu.Unlock()
			return c.last, nil
		case c.taking == nil:
			c.taking = make(chan struct{})
			number := c.number
			c.mu.Unlock()
			return c.refresh(number, take), nil
		}
		taking := c.taking
		c.mu.Unlock()
		select {
		case <-taking:
		case <-ctx.Done():
			return Stats{}, context.Cause(ctx)
		}
	}
}

func (c *cache) refresh(number uint64, take func() Stats) (taken Stats) {
	began, ok := time.Now(), false
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if ok && c.number == number { // nothing has changed meanwhile
			c.last, c.fresh = taken, time.Now().Add(max(minFresh, freshShare*time.Since(began)))
		}
		close(c.taking)
		c.taking = nil
	}()
	taken = take()
	ok = true
	return taken
}

// forget makes the next get return figures from after this call.
func (c *cache) forget() {
	c.mu.Lock()
	c.fresh = time.Time{}
	c.number++
	c.mu.Unlock()
}
