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
// [Pool.Get]. [New] makes a pool. All methods may be called by several goroutines at the
// same time.
type Pool[T any] struct {
	cfg   Config[T]
	group *Group
	owned bool // the group has no other pool, and ends with this one

	// ctx ends when the pool is closed. It is for the pool's own work.
	ctx    context.Context
	cancel context.CancelFunc

	// started counts the pool's own work: dials, and calls from the wheel. It goes up only
	// under mu, and only while the pool is not closed.
	started sync.WaitGroup

	panics atomic.Uint64

	// mu guards the fields below. While it is held, nothing blocks and no function of the
	// user runs. A lock of the wheel may be taken under it.
	mu     sync.Mutex
	closed bool
	gen    uint64 // how often the pool was reset

	// dialCtx is for the dials of this gen, and ends with it.
	dialCtx    context.Context
	dialCancel context.CancelFunc

	// idle is empty while there are waiters.
	idle    stack[T]
	waiters list.List // of *waiter[T], the longest wait first

	open    int // connections from the end of their dial until they are closed
	dialing int // at most MaxOpen together with open
	kept    int // open connections in a check to stay for MinIdle

	pause    *timer // ends the pause in dials for MinIdle; nil means no pause
	failures int    // failed dials in a row

	gets, waits, taken, dials, dialErrors uint64

	waitTime time.Duration
	ended    Counts
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
	shortest := min(cfg.MaxIdleTime, cfg.MaxAge)
	if cfg.CheckAfter > 0 {
		shortest = min(shortest, cfg.CheckAfter)
	}
	return max(time.Millisecond, min(shortest/10, 100*time.Millisecond))
}

// Get returns a connection: the one put back last, or a new one. If there are MaxOpen, it
// waits for its turn: first come, first served. It returns the error of the context,
// wrapped, if the context ends first. It returns the error of Dial, wrapped, if a dial
// fails while it waits, and [ErrClosed] after Close.
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

// judge decides about a connection from the idle stack: close it for a reason, check it, or
// neither. The wheel closes most in time, and exactly. Connections idle during a stop of
// the process or the machine are found here. p.mu must be held.
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

// sound checks a connection without a user, and ends it if the check fails or panics. p.mu
// must be held, and is released while the check runs.
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

// end closes a connection without a user, and gives its room to the next. p.mu must be
// held, and is released while Close runs. If the caller is a Get, it still has the lock
// after that and comes before all waiters.
func (p *Pool[T]) end(c *conn[T], why Reason) {
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.open--
		p.ended[why]++
		p.dialMore()
	}()
	c.timer.Remove()
	_ = p.protect(func() error {
		p.cfg.Close(c.value, why)
		return nil
	})
}

// Reset closes all idle connections, and each of the others when it comes back: say, after
// a move of the server. It ends the contexts of running dials. A Get with such a dial gets
// another one.
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

// Close closes the idle connections. Every Get, waiting or new, returns [ErrClosed]. Close
// waits for the dials, checks and closes begun by the pool itself; their context ends.
// Connections in use stay so, and are closed when they are put back. Closing again does
// nothing but wait. It returns nil, always.
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
