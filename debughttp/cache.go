package debughttp

import (
	"context"
	"errors"
	"sync"
	"time"
)

var errClosed = errors.New("debughttp: closed")

const (
	// minFresh is how long a snapshot serves all requests.
	minFresh = 200 * time.Millisecond

	// freshShare bounds snapshots to a twentieth of one processor.
	freshShare = 20
)

// cache keeps the last snapshot. At most one is taken at a time. Other requests wait for it.
type cache struct {
	mu     sync.Mutex
	taking chan struct{} // closed when the next snapshot is there; nil if none is being taken
	last   []byte
	err    error
	fresh  time.Time // until when the last one is
	closed bool
}

// get returns a snapshot. take makes one, and also returns its cost in time. get returns an error
// after close, or if ctx is done first.
func (c *cache) get(ctx context.Context, take func() ([]byte, time.Duration, error)) ([]byte, error) {
	for {
		c.mu.Lock()
		switch {
		case c.closed:
			c.mu.Unlock()
			return nil, errClosed
		case c.taking == nil && time.Now().Before(c.fresh):
			defer c.mu.Unlock()
			return c.last, c.err
		case c.taking == nil:
			c.taking = make(chan struct{})
			c.mu.Unlock()
			return c.refresh(take)
		}
		taking := c.taking
		c.mu.Unlock()
		select {
		case <-taking:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (c *cache) refresh(take func() ([]byte, time.Duration, error)) (body []byte, err error) {
	var cost time.Duration
	err = errors.New("debughttp: taking a snapshot panicked")
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last, c.err = body, err
		c.fresh = time.Now().Add(max(minFresh, freshShare*cost))
		close(c.taking)
		c.taking = nil
	}()
	body, cost, err = take()
	return body, err
}

// close ends it, and waits for a running take.
func (c *cache) close() {
	c.mu.Lock()
	c.closed, c.last = true, nil
	taking := c.taking
	c.mu.Unlock()
	if taking != nil {
		<-taking
	}
}

func (c *cache) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}
