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

// Pauses between dials for MinIdle that fail. Who waits in Get is answered at once.
const (
	minPause = 250 * time.Millisecond
	maxPause = 30 * time.Second
)

// errNoConn is for a Dial that calls runtime.Goexit.
var errNoConn = errors.New("function ended its goroutine")

// retry is the entry in the wheel of a pool that pauses between dials.
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

// dialMore begins as many dials as are wanted and possible. It is called whenever
// that may have changed: a dial belongs to nobody, and what it brings goes to
// whoever waits longest, so no more are begun than there are waiters, however
// often those give up and come back. p.mu must be held.
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
		p.started.Add(1)
		go p.dial(p.dialCtx, p.gen)
	}
}

func (p *Pool[T]) dial(ctx context.Context, gen uint64) {
	defer p.started.Done()
	var value T
	err := errNoConn
	defer func() { p.dialed(value, err, gen) }()
	value, err = p.callDial(ctx)
}

// callDial makes an error of a panic, since there is somebody who waits for one.
func (p *Pool[T]) callDial(ctx context.Context) (value T, err error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			p.report(v)
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	value, err = p.cfg.Dial(ctx)
	if err == nil && isNil(value) {
		err = errors.New("neither a connection nor an error")
	}
	return value, err
}

// isNil reports whether there is no connection: also where T is not an interface.
func isNil[T any](value T) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// bounded returns the context of what the pool does by itself.
func (p *Pool[T]) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.cfg.DialTimeout == never {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, p.cfg.DialTimeout)
}

// dialed gives what a dial has brought to who waits longest.
func (p *Pool[T]) dialed(value T, err error, gen uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialing--
	if err != nil {
		p.dialErrors++
		if gen == p.gen { // else it says nothing of the server that there is now
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

// dialFailed answers who waits longest, and begins a pause. p.mu must be held.
func (p *Pool[T]) dialFailed(err error) {
	if first := p.waiters.Front(); first != nil {
		p.answer(first, Lease[T]{}, fmt.Errorf("connpool: dial: %w", err))
	}
	if p.cfg.MinIdle == 0 || p.pause != nil || p.closed {
		return
	}
	pause := min(maxPause, minPause<<min(p.failures, 10))
	p.failures++
	// At random, so that the pools of a backend that has gone don't come together.
	pause = pause/2 + rand.N(pause/2)
	t := new(timer)
	if p.group.wheel.Start(t, retry[T]{p}, pause) == nil {
		p.pause = t
	}
}

// drawAge returns how old a connection may get.
func (p *Pool[T]) drawAge() time.Duration {
	age := p.cfg.MaxAge
	if age == never || p.cfg.MaxAgeJitter < 0 {
		return age
	}
	return max(1, age-time.Duration(rand.Float64()*p.cfg.MaxAgeJitter*float64(age)))
}

// report tells of a panic in a function of the user's.
func (p *Pool[T]) report(value any) {
	p.panics.Add(1)
	defer func() { _ = recover() }() // a report that panics too has been counted
	p.group.onPanic(value, debug.Stack())
}
