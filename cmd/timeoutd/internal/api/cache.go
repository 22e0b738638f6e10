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

// cache keeps the engine's last answer. Only one caller asks at a time. Other callers wait for it.
type cache[T any] struct {
	share int // how many times as long as it took an answer is reused, if that is more than minFresh

	mu     sync.Mutex
	taking chan struct{} // closed when the answer is there; nil if nobody asks
	last   T
	fresh  time.Time // until when last is reused
	number uint64    // of calls of forget
}

// get returns an answer of take, perhaps from a moment ago, or an error if ctx is done before. take
// also reports whether the engine answered. A failure is reused for minFresh only: otherwise a long
// silence of the engine would count for long after its end.
func (c *cache[T]) get(ctx context.Context, take func() (T, bool)) (none T, err error) {
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
			return none, context.Cause(ctx)
		}
	}
}

func (c *cache[T]) refresh(number uint64, take func() (T, bool)) (taken T) {
	began, ok, answered := time.Now(), false, false
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if ok && c.number == number { // nothing has changed meanwhile
			keep := minFresh
			if answered {
				keep = max(minFresh, time.Duration(c.share)*time.Since(began))
			}
			c.last, c.fresh = taken, time.Now().Add(keep)
		}
		close(c.taking)
		c.taking = nil
	}()
	taken, answered = take()
	ok = true
	return taken
}

// forget makes the next get ask after this call.
func (c *cache[T]) forget() {
	c.mu.Lock()
	c.fresh = time.Time{}
	c.number++
	c.mu.Unlock()
}
