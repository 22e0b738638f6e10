package api

import (
	"context"
	"sync"
	"time"
)

const (
	// minFresh is the least time for which figures are reused.
	minFresh = 500 * time.Millisecond

	// freshShare bounds the engine's time for figures to a tenth of the whole. What an engine that
	// hung did not say is not kept for that long.
	freshShare = 10
)

// cache keeps what the engine has said last. Only one caller asks at a time. Other callers wait
// for it.
type cache[T any] struct {
	mu     sync.Mutex
	taking chan struct{} // closed when the answer is there; nil if nobody asks
	last   T
	fresh  time.Time // until when last is reused
	number uint64    // of calls of forget
}

// get returns what take does, or did a moment ago, or an error if ctx is done before. take says
// whether it has an answer.
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
				keep = max(minFresh, freshShare*time.Since(began))
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
