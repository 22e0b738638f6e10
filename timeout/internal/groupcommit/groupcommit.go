// Package groupcommit makes batches of single calls, as databases do with commits (group commit,
// DeWitt et al., 1984): a call that comes alone goes at once, and those that come while others
// are under way go together.
package groupcommit

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// size is how many calls are made one batch at most.
	size = 512

	// patience is for how long at most a batch waits for those who were answered with the one
	// before, and share the part of the time that took.
	patience = 500 * time.Microsecond
	share    = 8
)

// A Committer makes batches of calls that ask for a Q and are answered with an A. There is one
// batch under way at a time: with two, each is half as large, and Redis did a fifth less on two
// processors. The functions are set before the first call, and not called at the same time as
// themselves, other than Abandon.
type Committer[Q, A any] struct {
	// Do makes a batch of at most 512 calls. It has to end by itself. The answers are in the
	// order of the asks, and zero, or left out at the end, where there is none.
	Do func(asks []Q) ([]A, error)

	// Fail is the error of one call: err is that of Do.
	Fail func(answer A, err error) error

	// Abandon is told of a call that was answered without an error when nobody waited for it
	// any more. It may be nil.
	Abandon func(ask Q, answer A)

	// Closed is the error of calls after Close.
	Closed error

	mu      sync.Mutex
	waiting []*call[Q, A]
	flies   bool
	closed  bool
	idle    sync.WaitGroup // for the one that flies
	spare   sync.Pool
}

type call[Q, A any] struct {
	ask    Q
	answer A
	err    error
	done   chan struct{} // has one element when it is answered

	// Guarded by the committer's mu.
	answered bool
	gone     bool // nobody waits for it
}

func (c *call[Q, A]) reset() { *c = call[Q, A]{done: c.done} }

// Call has ask done in a batch. When ctx ends while it waits for others, it is not done; when
// that is after its batch has begun, it may have been done or not.
func (c *Committer[Q, A]) Call(ctx context.Context, ask Q) (answer A, err error) {
	if ctx.Err() != nil {
		return answer, context.Cause(ctx)
	}
	own, _ := c.spare.Get().(*call[Q, A])
	if own == nil {
		own = &call[Q, A]{done: make(chan struct{}, 1)}
	}
	own.ask = ask
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return answer, c.Closed
	}
	c.waiting = append(c.waiting, own)
	if !c.flies {
		c.flies = true
		c.idle.Go(c.fly)
	}
	c.mu.Unlock()
	select {
	case <-own.done:
		answer, err = own.answer, own.err
		own.reset()
		c.spare.Put(own)
		return answer, err
	case <-ctx.Done():
	}
	c.mu.Lock()
	own.gone = true
	answered := own.answered // just now: otherwise the batch sees that it is gone
	c.mu.Unlock()
	if answered {
		c.abandon(own)
	}
	return answer, context.Cause(ctx)
}

func (c *Committer[Q, A]) abandon(own *call[Q, A]) {
	if c.Abandon != nil && own.err == nil {
		c.Abandon(own.ask, own.answer)
	}
}

// fly does what waits until nothing does.
func (c *Committer[Q, A]) fly() {
	last, took := 0, time.Duration(0)
	for {
		c.gather(last, min(took/share, patience))
		c.mu.Lock()
		// Whoever has gone may have asked elsewhere since, and a late answer would undo that.
		c.waiting = slices.DeleteFunc(c.waiting, func(own *call[Q, A]) bool { return own.gone })
		batch := c.waiting[:min(len(c.waiting), size)]
		c.waiting = c.waiting[len(batch):]
		if len(batch) == 0 {
			c.waiting, c.flies = nil, false
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
func (c *Committer[Q, A]) gather(expected int, patience time.Duration) {
	runtime.Gosched()
	if expected <= 1 {
		return
	}
	began := time.Now()
	for yields := 64 * expected; yields > 0 && c.waitingNow() < expected && time.Since(began) < patience; yields-- {
		runtime.Gosched()
	}
}

func (c *Committer[Q, A]) waitingNow() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

func (c *Committer[Q, A]) commit(batch []*call[Q, A]) {
	asks := make([]Q, len(batch))
	for i, own := range batch {
		asks[i] = own.ask
	}
	answers, err := c.Do(asks)
	for i, own := range batch {
		if i < len(answers) {
			own.answer = answers[i]
		}
		own.err = c.Fail(own.answer, err)
	}
	gone := c.answer(batch)
	for i, own := range batch {
		if gone[i] {
			c.abandon(own)
		} else {
			own.done <- struct{}{}
		}
	}
}

// answer reports for each call of a batch whether nobody waits for it any more. Those who give
// up after that find that it was answered.
func (c *Committer[Q, A]) answer(batch []*call[Q, A]) []bool {
	gone := make([]bool, len(batch))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, own := range batch {
		own.answered = true
		gone[i] = own.gone
	}
	return gone
}

// Close refuses further calls, and waits for those that were made.
func (c *Committer[Q, A]) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.idle.Wait()
}
