package connpool

import (
	"context"
	"errors"
	"net"
	"reflect"
	"sync/atomic"
	"time"
)

// patience is how long a check may go on after the end of its context. One that heeds its context
// needs less, even if the processor is not ours for a while: nothing is closed under it.
const patience = 500 * time.Millisecond

var errHangs = errors.New("check hangs")

// checks is the context of all checks of one Get. It ends while the caller still has time for a
// dial.
type checks struct {
	ctx    context.Context // nil before the first check
	cancel context.CancelFunc
}

func (c *checks) within(ctx context.Context, limit time.Duration) context.Context {
	if c.ctx == nil {
		if deadline, ok := ctx.Deadline(); ok && limit != never {
			limit = min(limit, time.Until(deadline)/2)
		}
		c.ctx, c.cancel = bounded(ctx, limit)
	}
	return c.ctx
}

func (c *checks) over() bool { return c.ctx != nil && c.ctx.Err() != nil }

func (c *checks) end() {
	if c.cancel != nil {
		c.cancel()
	}
}

// bounded returns a context for a function of the user. The limit may be never.
func bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == never {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// trial is one call of a check, on a goroutine of its own.
type trial struct {
	over     chan struct{} // closed at the end, unless nobody waits for it
	err      error
	panicked any // value of a panic, or nil

	// decided is set by the first of two: the check that has ended, and the caller who no longer
	// waits for it.
	decided atomic.Bool
}

// guard returns a check that returns after patience even if the given one hangs.
func (p *Pool[T]) guard(check func(context.Context, T) error) func(context.Context, T) error {
	if check == nil || isAlive(check) {
		return check
	}
	return func(ctx context.Context, value T) error {
		if p.hanging.Load() >= int64(p.group.workers) {
			return errHangs
		}
		t := &trial{over: make(chan struct{}), err: errNoConn}
		go func() {
			defer func() {
				t.panicked = recover()
				p.tried(t)
			}()
			t.err = check(ctx, value)
		}()
		if !t.wait(ctx) && p.giveUp(t) {
			return errHangs
		}
		if t.panicked != nil {
			panic(t.panicked)
		}
		return t.err
	}
}

// wait waits for the check, and reports whether it has ended.
func (t *trial) wait(ctx context.Context) bool {
	select {
	case <-t.over:
		return true
	case <-ctx.Done():
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-t.over:
		return true
	case <-limit.C:
		return false
	}
}

// giveUp ends the wait for a check that hangs. It reports false if the check has just ended.
func (p *Pool[T]) giveUp(t *trial) bool {
	p.hanging.Add(1)
	if !t.decided.Swap(true) {
		return true
	}
	p.hanging.Add(-1)
	<-t.over
	return false
}

// tried is the end of a check.
func (p *Pool[T]) tried(t *trial) {
	if !t.decided.Swap(true) {
		close(t.over)
		return
	}
	p.hanging.Add(-1)
	if t.panicked != nil {
		p.report(t.panicked)
	}
}

// isAlive reports whether a check is Alive, which never hangs.
func isAlive[T any](check func(context.Context, T) error) bool {
	of, ok := any(check).(func(context.Context, net.Conn) error)
	return ok && reflect.ValueOf(of).Pointer() == reflect.ValueOf(Alive).Pointer()
}
