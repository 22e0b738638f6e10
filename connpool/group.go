package connpool

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// Group is shared by several pools: a wheel for the deadlines of their idle connections. A
// program with a pool for each of a thousand backends has one goroutine for all of them. A
// function that hangs in one pool holds up no other. [NewGroup] makes one. All methods are
// safe for concurrent use.
type Group struct {
	wheel   *wheel.WheelOf[entry]
	onPanic func(value any, stack []byte)
	workers int // of each pool, at first

	// lost is the time left out by the wheel because the process or the machine was
	// stopped. The servers have counted it.
	lost atomic.Int64

	mu     sync.Mutex
	closed bool
	pools  map[member]struct{}
}

// entry has a deadline in the wheel: it is an idle connection of any type, or a pool in its
// pause between dials.
type entry interface {
	// due is called by one of the wheel's workers after the deadline.
	due(t *timer)
}

type timer = wheel.TimerOf[entry]

// member is a pool of any type.
type member interface {
	shut() // closes the pool, without waiting
	wait(ctx context.Context, leases bool) error
}

// NewGroup starts a wheel for pools; the zero config is useful. [wheel.Config].Workers is
// how many connections each pool closes, and checks in the background, at the same time. While
// more of them wait, there are as many workers again after each second: if Close hangs, it
// holds up the others of its pool for a while, and not for ever. NewGroup returns [ErrArgument]
// if the config asks for something impossible.
func NewGroup(cfg wheel.Config) (*Group, error) {
	g := &Group{pools: map[member]struct{}{}, workers: cfg.Workers}
	if g.workers == 0 {
		g.workers = defaultWorkers
	}
	if cfg.OnPanic == nil {
		cfg.OnPanic = logPanic
	}
	g.onPanic = cfg.OnPanic
	told := cfg.OnStall
	cfg.OnStall = func(lost time.Duration) {
		g.lost.Add(int64(lost))
		if told != nil {
			told(lost)
		}
	}
	w, err := wheel.NewOf(cfg, wheel.Funcs[entry]{Due: func(t *timer, e entry) { e.due(t) }})
	if err != nil {
		return nil, argumentError(err)
	}
	g.wheel = w
	return g, nil
}

// Close closes all pools of the group, waits as their Close does, and stops the wheel.
// Closing again does nothing. It returns nil, always.
func (g *Group) Close() error {
	_ = g.finish(context.Background(), false)
	return nil
}

// Shutdown is [Group.Close], and also waits for the connections in use, as [Pool.Shutdown] does. If
// the context ends first, Shutdown returns the error of one of the pools with connections left.
// The wheel has stopped then, too.
func (g *Group) Shutdown(ctx context.Context) error { return g.finish(ctx, true) }

func (g *Group) finish(ctx context.Context, leases bool) error {
	g.mu.Lock()
	g.closed = true
	pools := slices.Collect(maps.Keys(g.pools))
	g.mu.Unlock()
	for _, p := range pools {
		p.shut()
	}
	var first error
	left := 0
	for _, p := range pools {
		if err := p.wait(ctx, leases); err != nil {
			first = cmp.Or(first, err)
			left++
			continue // for another Shutdown
		}
		g.leave(p)
	}
	g.wheel.Stop()
	if left > 0 {
		return fmt.Errorf("connpool: %d of %d pools: %w", left, len(pools), first)
	}
	return nil
}

// Len returns how many pools there are.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.pools)
}

// Stats returns the figures of the wheel. Its timers are the connections of all pools, and
// the pools in a pause between dials. With [Config].LeakAfter each connection has two.
func (g *Group) Stats() wheel.Stats { return g.wheel.Stats() }

// now is the time since the start, in whole ticks, with the time left out by the wheel. It
// does not ask the clock: the hand tells, unless it may sleep.
func (g *Group) now() time.Duration {
	return g.wheel.Now() + time.Duration(g.lost.Load())
}

// join takes a pool in. It reports false if the group has been closed.
func (g *Group) join(p member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.pools[p] = struct{}{}
	return true
}

func (g *Group) leave(p member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.pools, p)
}

func logPanic(value any, stack []byte) {
	slog.Default().Error("connpool: callback panicked", "panic", value, "stack", string(stack))
}
