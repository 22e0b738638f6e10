package timeout

import (
	"context"
	"runtime"
	"sync"
	"time"
)

const (
	// commitSize is how many calls are made one batch at most.
	commitSize = 512

	// commitPatience is for how long at most a batch waits for those who were answered with
	// the one before, and commitShare the part of the time that took.
	commitPatience = 500 * time.Microsecond
	commitShare    = 8

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
	spare   sync.Pool
}

type commit[Q any] struct {
	ask    Q
	answer Answer
	err    error
	done   chan struct{} // has one element when it is answered
}

func (c *commit[Q]) forget() {
	var none Q
	c.ask, c.answer, c.err = none, Answer{}, nil
}

// call has ask done in a batch. When ctx ends first, it may have been done or not.
func (c *committer[Q]) call(ctx context.Context, ask Q) (Answer, error) {
	own, _ := c.spare.Get().(*commit[Q])
	if own == nil {
		own = &commit[Q]{done: make(chan struct{}, 1)}
	}
	own.ask = ask
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
		answer, err := own.answer, own.err
		own.forget()
		c.spare.Put(own)
		return answer, err
	case <-ctx.Done(): // and own is left to the batch
		return Answer{}, context.Cause(ctx)
	}
}

// fly does what waits until nothing does.
func (c *committer[Q]) fly() {
	last, took := 0, time.Duration(0)
	for {
		c.gather(last, min(took/commitShare, commitPatience))
		c.mu.Lock()
		batch := c.waiting[:min(len(c.waiting), commitSize)]
		c.waiting = c.waiting[len(batch):]
		if len(batch) == 0 {
			c.flies = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		began := time.Now()
		c.commit(batch)
		last, took = len(batch), time.Since(began)
	}
}

// gather lets those who were answered just now call again, so that they go together again:
// otherwise the first of them goes alone, and the others wait for it. It yields to them until
// as many wait, for so long at most.
func (c *committer[Q]) gather(expected int, patience time.Duration) {
	runtime.Gosched()
	if expected <= 1 {
		return
	}
	began := time.Now()
	for yields := 64 * expected; yields > 0 && c.waitingNow() < expected && time.Since(began) < patience; yields-- {
		runtime.Gosched()
	}
}

func (c *committer[Q]) waitingNow() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
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
		own.done <- struct{}{}
	}
}

// close refuses further calls, and waits for those that were made.
func (c *committer[Q]) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.idle.Wait()
}
