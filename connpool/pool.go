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

// Pool is a set of connections to one server, of which each is idle or in use by one
// caller of [Pool.Get]. [New] makes one. All methods may be called by several
// goroutines at the same time.
type Pool[T any] struct {
	cfg   Config[T]
	group *Group
	owned bool // the group has no other pool, and ends with this one

	// ctx ends when the pool is closed. It is for what the pool does by itself.
	ctx    context.Context
	cancel context.CancelFunc

	// started counts what the pool does by itself: dials, and what the wheel has called.
	// It goes up only under mu, and only while the pool is not closed.
	started sync.WaitGroup

	panics atomic.Uint64

	// mu guards what follows. Nothing that can block is done while it is held, and no
	// function of the user's runs; a lock of the wheel may be taken under it.
	mu     sync.Mutex
	closed bool
	gen    uint64 // how often the pool was reset

	// dialCtx is for the dials of this gen, and ends with it.
	dialCtx    context.Context
	dialCancel context.CancelFunc

	// idle has somebody only while waiters has nobody.
	idle    stack[T]
	waiters list.List // of *waiter[T], who waits longest first

	open    int // connections from the end of their dial until they are closed
	dialing int // at most MaxOpen together with open
	kept    int // of those that are open, how many are checked to stay for MinIdle

	pause    *timer // until when no dial is begun for MinIdle; nil: there is no pause
	failures int    // dials that have failed in a row

	gets, waits, taken, dials, dialErrors uint64

	waitTime time.Duration
	ended    Counts
}

// New makes a pool, which begins to dial at once where there is a MinIdle. It returns
// [ErrArgument], wrapped with the values and their limit, where the config asks for
// something impossible, and [ErrClosed] where its Group has been closed.
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

// tick returns how precise a wheel for this config has to be.
func (cfg Config[T]) tick() time.Duration {
	shortest := min(cfg.MaxIdleTime, cfg.MaxAge)
	if cfg.CheckAfter > 0 {
		shortest = min(shortest, cfg.CheckAfter)
	}
	return max(time.Millisecond, min(shortest/10, 100*time.Millisecond))
}

// Get returns a connection: the one that was put back last, or a new one. Where there
// are MaxOpen, it waits until it is its turn; who came first is served first. It
// returns the error of the context, wrapped, where that ends before; the error of Dial,
// wrapped, where one has failed while it waited; and [ErrClosed] after Close.
func (p *Pool[T]) Get(ctx context.Context) (Lease[T], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for again := false; ; again = true {
		if err := ctx.Err(); err != nil {
			return Lease[T]{}, fmt.Errorf("connpool: no connection: %w", err)
		}
		if p.closed {
			return Lease[T]{}, ErrClosed
		}
		c := p.idle.pop()
		if c == nil {
			return p.await(ctx, p.queue(again))
		}
		why, check := p.judge(c)
		lease := p.lend(c)
		if p.idle.n < p.cfg.MinIdle {
			p.dialMore()
		}
		switch {
		case why != 0:
			p.end(c, why)
		case !check || p.sound(ctx, c, p.cfg.Check):
			p.gets++
			return lease, nil
		}
	}
}

// judge says what is to be done with a connection that was idle: to close it, for a
// reason, to check it, or nothing. The wheel closes most in time, and exactly; what was
// idle while the process or the machine was stopped is found here. p.mu must be held.
func (p *Pool[T]) judge(c *conn[T]) (why Reason, check bool) {
	if why = p.unfit(c); why != 0 {
		return why, false
	}
	stopped := c.lost != p.group.lost.Load()
	if !stopped && p.cfg.Check == nil {
		return 0, false
	}
	idle := p.group.now() - c.since
	if stopped && idle > p.cfg.MaxIdleTime && p.idle.n >= p.cfg.MinIdle {
		return ReasonIdle, false
	}
	return 0, p.cfg.Check != nil && idle >= p.cfg.CheckAfter
}

// unfit returns why a connection must not be used any more, or 0. p.mu must be held.
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

// sound asks a check about a connection that is nobody else's, and ends it unless the
// answer is that it is sound, also where the check panics. p.mu must be held, and is not
// while the check runs.
func (p *Pool[T]) sound(ctx context.Context, c *conn[T], check func(context.Context, T) error) (ok bool) {
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		if !ok {
			p.end(c, ReasonCheck)
		}
	}()
	return check(ctx, c.value) == nil
}

// end closes a connection that is nobody's, and gives its room to the next. p.mu must be
// held, and is not while Close runs. A Get that still has the lock after that comes before
// whoever waits already.
func (p *Pool[T]) end(c *conn[T], why Reason) {
	p.mu.Unlock()
	defer func() {
		if v := recover(); v != nil {
			p.report(v)
		}
		p.mu.Lock()
		p.open--
		p.ended[why]++
		p.dialMore()
	}()
	c.timer.Remove()
	p.cfg.Close(c.value, why)
}

// Reset closes all idle connections, and each of the others when it comes back: after
// the server was moved, say. The contexts of dials that go on end, and who waits for
// one gets another.
func (p *Pool[T]) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gen++
	p.dialCancel()
	p.dialCtx, p.dialCancel = context.WithCancel(p.ctx)
	for _, c := range p.takeIdle() {
		p.end(c, ReasonReset)
	}
}

// takeIdle takes all idle connections out, the idlest first. p.mu must be held.
func (p *Pool[T]) takeIdle() []*conn[T] {
	all := make([]*conn[T], 0, p.idle.n)
	for c := p.idle.oldest; c != nil; c = p.idle.oldest {
		p.idle.remove(c)
		all = append(all, c)
	}
	return all
}

// Close closes the idle connections and makes every Get, also those that wait, return
// [ErrClosed]. It waits for the dials, the checks and the closing that the pool has
// begun by itself, whose context ends. Connections that are in use stay so, and are
// closed when they are put back. Closing again does nothing but wait. It returns nil,
// always.
func (p *Pool[T]) Close() error {
	p.shut()
	p.wait()
	if p.owned {
		return p.group.Close()
	}
	p.group.leave(p)
	return nil
}

func (p *Pool[T]) wait() { p.started.Wait() }

func (p *Pool[T]) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.started.Add(1)
	defer p.started.Done()
	p.closed = true
	p.cancel()
	for at := p.waiters.Front(); at != nil; at = p.waiters.Front() {
		p.answer(at, Lease[T]{}, ErrClosed)
	}
	if p.pause != nil {
		p.pause.Remove()
	}
	for _, c := range p.takeIdle() {
		p.end(c, ReasonClosed)
	}
}

func argumentError(err error) error {
	if errors.Is(err, wheel.ErrArgument) {
		return fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return err
}
