package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/argument"
	"github.com/heartwheel-go/heartwheel/wheel"
)

var (
	// ErrClosed is the error of a call after Close.
	ErrClosed = errors.New("pool: closed")

	// ErrFull is the error for one member more than the capacity. The wrapping error names
	// the capacity.
	ErrFull = errors.New("pool: full")

	// ErrArgument is the error for an argument out of bounds. The wrapping error names the
	// value and the limit.
	ErrArgument error = argument.Error("pool")
)

const (
	defaultTimeout = time.Minute

	// defaultMinIdle is in ticks.
	defaultMinIdle = 10
)

// Member is one member of a [Pool], with its value and its deadline: a timer of the pool's
// wheel. [Pool.Add] makes one. It can also be a field of the caller's own struct, see
// [Pool.Join]. A member never comes back after it has left, and nobody else ever gets the
// same Member. So a reference kept for too long does no harm.
type Member[V any] = wheel.TimerOf[V]

// Config is the config of a pool. Due is required.
type Config[V any] struct {
	// Timeout is how long a member stays without a touch, unless it has joined with a timeout
	// of its own. Zero means a minute.
	Timeout time.Duration

	// Capacity is how many members the pool may have. Zero means any number.
	Capacity int

	// Full is what happens to one more. The zero value is Reject.
	Full Full

	// MinIdle is the shortest time without a touch before an eviction, if Full is
	// EvictIdlest. Zero means ten ticks.
	MinIdle time.Duration

	// Evict is Due for the eviction of a member, if Full is EvictIdlest, and is required
	// then.
	Evict func(m *Member[V], v V)

	// Evictable, if not nil, reports whether a member may be evicted. Newcomers are refused if
	// nobody is left. It is called by Add and Join, must be quick, and must not use the pool.
	Evictable func(v V) bool

	// Due is called by one of the wheel's workers with each due member, and its value. It
	// ends the membership with Expire, or gives the member more time with Rearm or TouchAt,
	// at once or later. Until then the member is still in the pool, and a touch keeps it
	// there. A member that was kept may be due again while the call before is still
	// running.
	Due func(m *Member[V], v V)

	// Limit, if not nil, gives each member an instant unmoved by touches, see
	// [wheel.Funcs].
	Limit func(v V) time.Duration

	// Wheel is the config of the wheel with the deadlines. The zero value is useful.
	Wheel wheel.Config
}

// Pool is a set of members with a deadline each. [New] makes one. All methods are
// safe for concurrent use, and may be called from Due.
type Pool[V any] struct {
	wheel    *wheel.WheelOf[V]
	timeout  time.Duration
	capacity atomic.Int64
	full     Full
	departed chan struct{} // not empty after a member has left
	closed   context.Context
	close    context.CancelFunc

	// mu makes one step of finding room and taking it. A pool without a capacity joins
	// members without it.
	mu       sync.Mutex
	eviction eviction[V]

	evictable func(v V) bool
}

// New makes a pool and starts its wheel. It returns [ErrArgument], wrapped with the values
// and their limit, if the config asks for something impossible.
func New[V any](cfg Config[V]) (*Pool[V], error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	switch {
	case cfg.Timeout < 0:
		return nil, fmt.Errorf("%w: Timeout %v, must be positive", ErrArgument, cfg.Timeout)
	case cfg.Capacity < 0:
		return nil, fmt.Errorf("%w: Capacity %d, must not be negative", ErrArgument, cfg.Capacity)
	case cfg.Due == nil:
		return nil, fmt.Errorf("%w: Due is nil", ErrArgument)
	}
	if err := cfg.Full.check(cfg.MinIdle, cfg.Evict != nil); err != nil {
		return nil, err
	}
	p := &Pool[V]{
		timeout:  cfg.Timeout,
		full:     cfg.Full,
		departed: make(chan struct{}, 1),

		evictable: cfg.Evictable,
	}
	p.closed, p.close = context.WithCancel(context.Background())
	w, err := wheel.NewOf(cfg.Wheel, wheel.Funcs[V]{
		Due: func(m *Member[V], v V) {
			if cfg.Full == EvictIdlest && p.isEvicted(m) {
				cfg.Evict(m, v)
			} else {
				cfg.Due(m, v)
			}
		},
		Limit: cfg.Limit,
		Ended: p.wake,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	p.wheel = w
	p.capacity.Store(int64(cfg.Capacity))
	p.eviction.evicted = make(map[*Member[V]]time.Duration)
	p.eviction.tick = w.Stats().Tick
	p.SetMinIdle(cfg.MinIdle)
	return p, nil
}

// Add takes a new member into the pool. It returns [ErrFull] if there is no room, and
// [ErrClosed] after Close.
func (p *Pool[V]) Add(v V) (*Member[V], error) {
	m := new(Member[V])
	if err := p.Join(m, v, p.timeout); err != nil {
		return nil, err
	}
	return m, nil
}

// Join is Add for a member in the caller's own memory, with a timeout of its own. It
// returns [ErrArgument] if m is a member, or has been one, or if timeout is not positive.
func (p *Pool[V]) Join(m *Member[V], v V, timeout time.Duration) error {
	if capacity := p.capacity.Load(); capacity > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		joins := timeout > 0 && !m.WasStarted() // or Start refuses it, and nobody has to go for that
		if joins && !p.makeRoom(int(capacity)) {
			return fmt.Errorf("%w: has its %d members", ErrFull, capacity)
		}
	}
	switch err := p.wheel.Start(m, v, timeout); {
	case errors.Is(err, wheel.ErrClosed):
		return ErrClosed
	case err != nil:
		return fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return nil
}

// Len returns the number of members.
func (p *Pool[V]) Len() int { return p.wheel.Len() }

// SetCapacity changes how many members the pool may have. Zero or less means any number.
// Members beyond the capacity stay.
func (p *Pool[V]) SetCapacity(n int) {
	p.capacity.Store(int64(max(n, 0)))
	p.wake()
}

// SetMinIdle changes [Config].MinIdle. Zero or less means ten ticks.
func (p *Pool[V]) SetMinIdle(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eviction.minIdle = cmp.Or(max(d, 0), defaultMinIdle*p.eviction.tick)
}

// Wheel returns the wheel with the deadlines, for its time and its figures.
func (p *Pool[V]) Wheel() *wheel.WheelOf[V] { return p.wheel }

// All returns an iterator over the members that are there when the iteration begins, with their
// values, in no particular order. It leaves out members gone before the iteration reaches
// them. Members may be removed meanwhile.
func (p *Pool[V]) All() iter.Seq2[*Member[V], V] { return p.wheel.All() }

// Close removes all members without a call of Due, and stops the wheel. It does not wait
// for a running Due, and may be called from there. Closing again does nothing. It always
// returns nil.
func (p *Pool[V]) Close() error {
	p.close()
	p.wheel.Stop()
	return nil
}
