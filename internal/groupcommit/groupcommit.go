// Package groupcommit makes batches of single calls, as databases do with commits (group
// commit, DeWitt et al., 1984). A single call goes at once. Calls that come while a batch is
// under way go together.
package groupcommit

import (
	"context"
	"runtime"
	"slices"
	"sync"
)

// size is the greatest number of calls in a batch.
const size = 512

// A Committer makes batches of calls with a Q and an answer A. One batch is under way at a
// time: with two, each is half as large, and costs a third more. The functions are set before
// the first call. None runs at the same time as itself, other than Abandon.
type Committer[Q, A any] struct {
	// Do makes a batch of at most 512 calls. It must end by itself. The answers are in the
	// order of the asks. A missing answer is zero, or left out at the end.
	Do func(asks []Q) ([]A, error)

	// Fail returns the error of one call; err is the error of Do.
	Fail func(answer A, err error) error

	// Abandon is told of a call answered without an error after its caller gave up. It may be
	// nil.
	Abandon func(ask Q, answer A)

	// Closed is the error of calls after Close.
	Closed error

	mu      sync.Mutex
	waiting []*call[Q, A]
	gone    int // about how many of these have given up
	flies   bool
	closed  bool
	idle    sync.WaitGroup // for the batch under way
	asleep  sync.WaitGroup // the callers of the last batch, until each runs again
	spare   sync.Pool
}

type call[Q, A any] struct {
	ask    Q
	answer A
	err    error
	done   chan struct{} // has one element when it is answered

	// Guarded by the committer's mu.
	answered bool
	gone     bool // its caller has given up
}

// Call has ask done in a batch. If ctx ends before the batch begins, ask is not done. If ctx
// ends later, ask may have been done or not.
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
		c.asleep.Done()
		answer, err = own.answer, own.err
		*own = call[Q, A]{done: own.done}
		c.spare.Put(own)
		return answer, err
	case <-ctx.Done():
	}
	c.mu.Lock()
	own.gone = true
	c.gone++
	answered := own.answered // just now: otherwise the batch sees gone
	c.mu.Unlock()
	if answered {
		c.asleep.Done()
		c.abandon(own)
	}
	return answer, context.Cause(ctx)
}

func (c *Committer[Q, A]) abandon(own *call[Q, A]) {
	if c.Abandon != nil && own.err == nil {
		c.Abandon(own.ask, own.answer)
	}
}

// fly makes batches until no call waits.
func (c *Committer[Q, A]) fly() {
	for {
		runtime.Gosched()
		c.mu.Lock()
		batch := c.take()
		if len(batch) == 0 {
			c.waiting, c.flies = nil, false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		c.commit(batch)
		// Callers that call again at once go together. Otherwise the first of them would go alone,
		// and the others wait for it.
		c.asleep.Wait()
	}
}

// take returns the next batch, or nothing if no call waits. It leaves out callers that gave up: such a
// caller may have asked elsewhere, and a late call would undo that. Very many may wait, so take looks
// at all of them only after half as many have given up. c.mu must be held.
func (c *Committer[Q, A]) take() (batch []*call[Q, A]) {
	gone := func(own *call[Q, A]) bool { return own.gone }
	if 2*c.gone > len(c.waiting) {
		c.waiting, c.gone = slices.DeleteFunc(c.waiting, gone), 0
	}
	for len(batch) == 0 && len(c.waiting) > 0 {
		batch = c.waiting[:min(len(c.waiting), size)]
		c.waiting = c.waiting[len(batch):]
		batch = slices.DeleteFunc(batch, gone)
	}
	return batch
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

// answer reports for each call of a batch whether its caller has given up. If a caller gives up
// later, it finds the call answered.
func (c *Committer[Q, A]) answer(batch []*call[Q, A]) []bool {
	gone := make([]bool, len(batch))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, own := range batch {
		own.answered = true
		if gone[i] = own.gone; !own.gone {
			c.asleep.Add(1)
		}
	}
	return gone
}

// Close refuses further calls, and waits for the earlier ones.
func (c *Committer[Q, A]) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.idle.Wait()
}
