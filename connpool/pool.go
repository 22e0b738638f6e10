package connpool

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// Pool is a set of connections to one server. Each is idle, or in use by one caller of
// [Pool.Get]. [New] makes a pool. All methods are safe for concurrent
// use.
type Pool[T any] struct {
	cfg   Config[T]
	group *Group
	owned bool // the group has no other pool, and ends with this one

	// ctx ends when the pool is closed. It is for the pool's own work.
	ctx    context.Context
	cancel context.CancelFunc

	panics  atomic.Uint64
	hanging atomic.Int64 // checks that nobody waits for any more

	// tend is Check for MinIdle: it reports a panic. Nil means no check.
	tend func(ctx context.Context, c T) error

	// mu guards the fields below. While it is held, nothing blocks and no function of the
	// user runs. A lock of the wheel may be taken under it.
	mu     sync.Mutex
	closed bool
	gen    uint64 // how often the pool was reset

	// dialCtx is for the dials of this gen, and ends with it.
	dialCtx    context.Context
	dialCancel context.CancelFunc

	// idle is empty while there are waiters, except for those whose checks have taken too long.
	idle    stack[T]
	waiters list.List // of *waiter[T], the longest wait first

	open    int // connections from the end of their dial until they are closed
	dialing int // at most MaxOpen together with open
	closing int // open connections being closed, or about to be
	kept    int // open connections in a check to stay for MinIdle
	leaking int // leases that are out and were reported

	// working counts the pool's own work: dials, and the jobs in the background. less tells
	// of each decrease of working and of open.
	working int
	less    sync.Cond

	pause    *timer // ends the pause in dials for MinIdle; nil means no pause
	failures int    // failed dials in a row

	gets, waits, taken, dials, dialErrors, leaks uint64

	waitTime time.Duration
	ended    Counts

	background background
}

// New makes a pool. With a MinIdle it begins to dial at once. It returns [ErrArgument],
// wrapped with the values and their limit, if the config asks for something impossible, and
// [ErrClosed] if its Group has been closed.
func New[T any](cfg Config[T]) (*Pool[T], error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Pool[T]{cfg: cfg, group: cfg.Group}
	if p.group == nil {
		p.owned = true
		if p.group, err = NewGroup(wheel.Config{Tick: cfg.tick()}); err != nil {
			return nil, err
		}
	}
	p.less.L = &p.mu
	p.background.most = p.group.workers
	if cfg.Check != nil {
		p.tend = p.guard(func(ctx context.Context, c T) error {
			return p.protect(func() error { return cfg.Check(ctx, c) })
		})
	}
	p.cfg.Check, p.cfg.CheckPut = p.guard(cfg.Check), p.guard(cfg.CheckPut)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.dialCtx, p.dialCancel = context.WithCancel(p.ctx)
	if !p.group.join(p) {
		p.cancel()
		return nil, ErrClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialMore()
	return p, nil
}

// tick returns the tick of a wheel for this config.
func (cfg Config[T]) tick() time.Duration {
	shortest := min(cfg.MaxIdleTime, cfg.MaxAge, cfg.LeakAfter)
	if cfg.CheckAfter > 0 {
		shortest = min(shortest, cfg.CheckAfter)
	}
	return max(time.Millisecond, min(shortest/10, 100*time.Millisecond))
}

// Get returns a connection: the one put back last, or a new one. If there are MaxOpen, it
// waits for its turn: first come, first served. It returns the error of the context,
// wrapped, if the context ends first. It returns the error of Dial, wrapped, if a dial
// fails while it waits, and [ErrClosed] after Close. It waits for no Close of a connection,
// unless MaxOpen leaves no other room. For its checks, see Config.CheckTimeout.
func (p *Pool[T]) Get(ctx context.Context) (Lease[T], error) {
	var by *trace
	if p.cfg.LeakAfter != never {
		by = caller()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var checks checks
	defer checks.end()
	for again := false; ; again = true {
		enough := checks.over()
		if err := ctx.Err(); err != nil {
			return Lease[T]{}, fmt.Errorf("connpool: no connection: %w", err)
		}
		if p.closed {
			return Lease[T]{}, ErrClosed
		}
		if enough || p.idle.n == 0 { // after enough checks: the next connection may be no better
			return p.await(ctx, p.queue(again), by)
		}
		c := p.idle.pop()
		why, check := p.judge(c)
		lease := p.lend(c)
		if p.idle.n < p.cfg.MinIdle {
			p.dialMore()
		}
		switch {
		case why != 0:
			p.discard(c, why)
		case !check || p.sound(checks.within(ctx, p.cfg.CheckTimeout), c, p.cfg.Check, p.discard):
			p.lent(c, by)
			return lease, nil
		}
	}
}

// judge decides about a connection from the idle stack: close it for a reason, check it, or
// neither. Connections idle during a stop of the process or the machine are found here, and
// those whose deadline has passed before anybody has closed them. p.mu must be held.
func (p *Pool[T]) judge(c *conn[T]) (why Reason, check bool) {
	if why = p.unfit(c); why != 0 {
		return why, false
	}
	stopped, due := c.lost != p.group.lost.Load(), c.timer.IsDue()
	if !stopped && !due && p.cfg.Check == nil {
		return 0, false
	}
	idle := p.group.now() - c.since
	if due || stopped && idle > p.cfg.MaxIdleTime {
		if why = p.overdue(c); why != 0 {
			return why, false
		}
	}
	return 0, p.cfg.Check != nil && idle >= p.cfg.CheckAfter
}

// overdue returns the reason to close a connection just taken out of the idle stack after its
// deadline, or 0 if it stays for MinIdle. p.mu must be held.
func (p *Pool[T]) overdue(c *conn[T]) Reason {
	switch {
	case c.aging && c.timer.IsDue():
		return ReasonMaxAge
	case p.idle.n+p.kept < p.cfg.MinIdle:
		return 0
	default:
		return ReasonIdle
	}
}

// unfit returns the reason to close a connection, or 0 if it may still be used. p.mu must
// be held.
func (p *Pool[T]) unfit(c *conn[T]) Reason {
	switch {
	case p.closed:
		return ReasonClosed
	case c.gen != p.gen:
		return ReasonReset
	case c.oldAt != never && p.group.now() >= c.oldAt:
		return ReasonMaxAge
	default:
		return 0
	}
}

// sound checks a connection without a user. If the check fails, panics or hangs, sound calls end.
// p.mu must be held, and is released while the check runs.
func (p *Pool[T]) sound(
	ctx context.Context, c *conn[T], check func(context.Context, T) error, end func(*conn[T], Reason),
) (ok bool) {
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		if !ok {
			end(c, ReasonCheck)
		}
	}()
	return check(ctx, c.value) == nil
}

// discard closes a connection without a user in the background. p.mu must be held.
func (p *Pool[T]) discard(c *conn[T], why Reason) {
	p.closing++
	p.begin(func() { p.close(c, why) })
}

// end closes a connection without a user: it is the caller's, who waits for it. p.mu must be
// held, and is released while Close runs.
func (p *Pool[T]) end(c *conn[T], why Reason) {
	p.closing++
	p.close(c, why)
}

// close calls Close, and then gives the connection's room to the next. It is for end and discard.
func (p *Pool[T]) close(c *conn[T], why Reason) {
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.open--
		p.closing--
		p.less.Broadcast()
		p.ended[why]++
		p.dialMore()
	}()
	c.stop()
	_ = p.protect(func() error {
		p.cfg.Close(c.value, why)
		return nil
	})
}

// Reset closes all idle connections, and each of the others when it comes back: say, after
// a move of the server. It does not wait for the closes: they run side by side in the
// background. It ends the contexts of running dials. A Get with such a dial gets another one.
func (p *Pool[T]) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gen++
	p.dialCancel()
	p.dialCtx, p.dialCancel = context.WithCancel(p.ctx)
	p.discardIdle(ReasonReset)
	p.dialMore() // for MinIdle, even if Close hangs
}

// discardIdle closes all idle connections in the background, the idlest first. p.mu must be
// held.
func (p *Pool[T]) discardIdle(why Reason) {
	for c := p.idle.oldest; c != nil; c = p.idle.oldest {
		p.idle.remove(c)
		p.discard(c, why)
	}
}

func argumentError(err error) error {
	if errors.Is(err, wheel.ErrArgument) {
		return fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return err
}
