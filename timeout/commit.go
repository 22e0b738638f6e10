package timeout

import (
	"context"
	"sync"
	"time"
)

const (
	// commitSize is how many calls are made one batch at most.
	commitSize = 512

	// commitTimeout is how long an engine may take for a batch. Whoever waits for it can have
	// given up long before.
	commitTimeout = 30 * time.Second
)

// committer makes batches of single calls, as databases do with commits (group commit,
// DeWitt et al., 1984): a call that comes alone goes at once, and those that come while
// others are under way go together. There is one batch under way at a time: with two, each is
// half as large, and Redis did a fifth less on two processors.
type committer[Q any] struct {
	do func(context.Context, []Q) ([]Answer, error)

	mu      sync.Mutex
	waiting []*commit[Q]
	flies   bool
	closed  bool
	idle    sync.WaitGroup // for the one that flies
}

type commit[Q any] struct {
	ask    Q
	answer Answer
	err    error
	done   chan struct{}
}

// call has ask done in a batch. When ctx ends first, it may have been done or not.
func (c *committer[Q]) call(ctx context.Context, ask Q) (Answer, error) {
	own := &commit[Q]{ask: ask, done: make(chan struct{})}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return Answer{}, ErrClosed
	}
	c.waiting = append(c.waiting, own)
	if !c.flies {
		c.flies = true
		c.idle.Go(c.fly)
	}
	c.mu.Unlock()
	select {
	case <-own.done:
		return own.answer, own.err
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	}
}

// fly does what waits until nothing does.
func (c *committer[Q]) fly() {
	for {
		c.mu.Lock()
		batch := c.waiting[:min(len(c.waiting), commitSize)]
		c.waiting = c.waiting[len(batch):]
		if len(batch) == 0 {
			c.flies = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		c.commit(batch)
	}
}

func (c *committer[Q]) commit(batch []*commit[Q]) {
	asks := make([]Q, len(batch))
	for i, own := range batch {
		asks[i] = own.ask
	}
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	answers, err := c.do(ctx, asks)
	for i, own := range batch {
		if own.err = err; err == nil {
			own.answer, own.err = answers[i], answers[i].Err
		}
		close(own.done)
	}
}

// close refuses further calls, and waits for those that were made.
func (c *committer[Q]) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.idle.Wait()
}
