package connpool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"time"
)

// Pauses between failed dials for MinIdle. A waiting Get is answered at once.
const (
	minPause = 250 * time.Millisecond
	maxPause = 30 * time.Second
)

// errNoConn is the error after runtime.Goexit in Dial.
var errNoConn = errors.New("function ended its goroutine")

// retry is the wheel's entry for a pool in its pause between dials.
type retry[T any] struct{ pool *Pool[T] }

func (r retry[T]) due(t *timer) {
	p := r.pool
	t.Expire()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pause == t {
		p.pause = nil
	}
	p.dialMore()
}

// dialMore begins as many dials as are wanted and possible. It is called after every change
// of either number. A dial belongs to nobody: its connection goes to the longest waiter. So
// no more dials are begun than there are waiters, however often waiters give up and come
// back. p.mu must be held.
func (p *Pool[T]) dialMore() {
	if p.closed {
		return
	}
	wanted := p.waiters.Len()
	if p.idle.n+p.kept < p.cfg.MinIdle && p.pause == nil {
		wanted++
	}
	for p.dialing < wanted && p.dialing < p.cfg.MaxOpen-p.open {
		p.dialing++
		p.dials++
		p.working++
		go p.dial(p.dialCtx, p.gen)
	}
}

func (p *Pool[T]) dial(ctx context.Context, gen uint64) {
	var value T
	err := errNoConn
	defer func() { p.dialed(value, err, gen) }()
	value, err = p.callDial(ctx)
}

func (p *Pool[T]) callDial(ctx context.Context) (value T, err error) {
	ctx, cancel := bounded(ctx, p.cfg.DialTimeout)
	defer cancel()
	err = p.protect(func() (err error) {
		value, err = p.cfg.Dial(ctx)
		return err
	})
	if err == nil && isNil(value) {
		err = errors.New("neither a connection nor an error")
	}
	return value, err
}

// isNil reports whether there is no connection, also if T is not an interface.
func isNil[T any](value T) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// dialed gives the result of a dial to the longest waiter.
func (p *Pool[T]) dialed(value T, err error, gen uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.worked()
	p.dialing--
	if err != nil {
		p.dialErrors++
		if gen == p.gen { // an older dial says nothing about the present server
			p.dialFailed(err)
		}
		p.dialMore()
		return
	}
	p.open++
	p.failures = 0
	if p.pause != nil {
		p.pause.Remove()
		p.pause = nil
	}
	c := &conn[T]{value: value, pool: p, gen: gen, oldAt: never}
	if why := p.unfit(c); why != 0 {
		p.end(c, why)
		return
	}
	p.start(c)
	p.restore(c)
	p.dialMore()
}

// dialFailed answers the longest waiter, and begins a pause. p.mu must be held.
func (p *Pool[T]) dialFailed(err error) {
	if first := p.waiters.Front(); first != nil {
		p.answer(first, Lease[T]{}, fmt.Errorf("connpool: dial: %w", err))
	}
	if p.cfg.MinIdle == 0 || p.pause != nil || p.closed {
		return
	}
	pause := min(maxPause, minPause<<min(p.failures, 10))
	p.failures++
	// Random, or the pools of a lost backend would come back together.
	pause = pause/2 + rand.N(pause/2)
	t := new(timer)
	if p.group.wheel.Start(t, retry[T]{p}, pause) == nil {
		p.pause = t
	}
}

// drawAge returns the maximum age of a new connection.
func (p *Pool[T]) drawAge() time.Duration {
	age := p.cfg.MaxAge
	if age == never || p.cfg.MaxAgeJitter < 0 {
		return age
	}
	return max(1, age-time.Duration(rand.Float64()*p.cfg.MaxAgeJitter*float64(age)))
}

// protect calls a function of the user. It reports a panic, and turns it into an error. p.mu must not be
// held: OnPanic may call the pool.
func (p *Pool[T]) protect(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p.report(v)
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}

// report tells of a panic in a function of the user.
func (p *Pool[T]) report(value any) {
	p.panics.Add(1)
	defer func() { _ = recover() }() // OnPanic may panic, too; the first panic is counted
	p.group.onPanic(value, debug.Stack())
}
