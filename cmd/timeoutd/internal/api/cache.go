package api

import (
	"context"
	"sync"
	"time"
)

const (
	// minFresh is how long figures serve all who ask.
	minFresh = 500 * time.Millisecond

	// freshShare bounds the time that taking them costs the engine to a tenth.
	freshShare = 10
)

// cache keeps the last figures. At most one look is taken at a time, and those who ask
// meanwhile wait for it.
type cache struct {
	mu     sync.Mutex
	taking chan struct{} // closed when the look that is taken is there, or nil
	last   Stats
	fresh  time.Time // until when the last one is
	number uint64    // of times that it was forgotten
}

// get returns figures. It returns an error where ctx is done before.
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

// forget has the next one who asks get figures of after now.
func (c *cache) forget() {
	c.mu.Lock()
	c.fresh = time.Time{}
	c.number++
	c.mu.Unlock()
}
