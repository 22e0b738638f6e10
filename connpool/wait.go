package connpool

import (
	"container/list"
	"context"
	"fmt"
	"time"
)

// waiter is a waiting Get. Pool.mu guards it until ready is closed.
type waiter[T any] struct {
	ready chan struct{} // closed when there is an answer
	since time.Time
	lease Lease[T]
	err   error
	done  bool // has its answer, and is no longer in the queue
}

// queue makes the caller wait: behind the others, or before them if it had its turn already
// and got nothing. p.mu must be held.
func (p *Pool[T]) queue(first bool) *list.Element {
	w := &waiter[T]{ready: make(chan struct{}), since: time.Now()}
	p.waits++
	at := p.waiters.PushBack(w)
	if first {
		p.waiters.MoveToFront(at)
	}
	p.dialMore()
	return at
}

// answer ends a wait. p.mu must be held.
func (p *Pool[T]) answer(at *list.Element, lease Lease[T], err error) {
	w := p.waiters.Remove(at).(*waiter[T])
	w.lease, w.err, w.done = lease, err, true
	close(w.ready)
}

// serve gives a connection to the longest waiter, and reports whether there is a waiter.
// p.mu must be held.
func (p *Pool[T]) serve(c *conn[T]) bool {
	first := p.waiters.Front()
	if first == nil {
		return false
	}
	p.answer(first, p.lend(c), nil)
	return true
}

// await waits for the answer. If the context has ended, a connection handed over at that
// moment goes to the next. p.mu must be held, and is released while await waits.
func (p *Pool[T]) await(ctx context.Context, at *list.Element, by *trace) (Lease[T], error) {
	w := at.Value.(*waiter[T])
	p.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	p.mu.Lock()
	waited := time.Since(w.since)
	p.waitTime += waited
	if !w.done {
		p.waiters.Remove(at)
	}
	ended := ctx.Err() != nil && w.err == nil
	if !ended && w.err == nil {
		p.lent(w.lease.conn, by)
	}
	if !ended {
		return w.lease, w.err
	}
	err := fmt.Errorf("connpool: no connection within %v, with %d open and %d being dialed: %w",
		waited, p.open, p.dialing, ctx.Err())
	if w.done {
		c := w.lease.conn
		w.lease.finish()
		if why := p.unfit(c); why != 0 {
			p.discard(c, why)
		} else {
			p.restore(c)
		}
	}
	return Lease[T]{}, err
}
