package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/argument"
	"github.com/heartwheel-go/heartwheel/wheel"
)

var (
	// ErrFull is the error for one member more than the capacity. The wrapping error names
	// the capacity.
	ErrFull = errors.New("pool: full")

	// ErrArgument is the error for a config out of bounds. The wrapping error names the
	// value and the limit.
	ErrArgument error = argument.Error("pool")
)

// Member is one member of a [Pool], with its value and its deadline: a timer of the pool's
// wheel. It can be a field of the caller's own struct. [Pool.Join] makes it a member. It never
// comes back after it has left, and nobody else ever gets the same Member. So a reference kept
// for too long does no harm.
type Member[V any] = wheel.TimerOf[V]

// Config is the config of a pool. Due is required.
type Config[V any] struct {
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
	// nobody is left. It is called by Join, must be quick, and must not use the pool.
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
	cfg      Config[V]
	capacity atomic.Int64
	departed chan struct{} // not empty after a member has left
	closed   context.Context
	close    context.CancelFunc

	// mu makes one step of finding room and taking it. A pool without a capacity joins
	// members without it.
	mu       sync.Mutex
	eviction eviction[V]
}

// New makes a pool and starts its wheel. It returns [ErrArgument], wrapped with the values
// and their limit, if the config asks for something impossible.
func New[V any](cfg Config[V]) (*Pool[V], error) {
	switch {
	case cfg.Capacity < 0:
		return nil, fmt.Errorf("%w: Capacity %d, must not be negative", ErrArgument, cfg.Capacity)
	case cfg.Due == nil:
		return nil, fmt.Errorf("%w: Due is nil", ErrArgument)
	case cfg.Full < Reject || cfg.Full > EvictIdlest:
		return nil, fmt.Errorf("%w: Full %d, must be %d to %d", ErrArgument, cfg.Full, Reject, EvictIdlest)
	case cfg.MinIdle < 0:
		return nil, fmt.Errorf("%w: MinIdle %v, must not be negative", ErrArgument, cfg.MinIdle)
	case cfg.MinIdle > 0 && cfg.Full != EvictIdlest:
		return nil, fmt.Errorf("%w: MinIdle %v is for Full %v, not for %v", ErrArgument, cfg.MinIdle, EvictIdlest, cfg.Full)
	case cfg.Full == EvictIdlest && cfg.Evict == nil:
		return nil, fmt.Errorf("%w: Full is %v, and Evict is nil", ErrArgument, cfg.Full)
	}
	p := &Pool[V]{cfg: cfg, departed: make(chan struct{}, 1)}
	p.closed, p.close = context.WithCancel(context.Background())
	var err error
	p.wheel, err = wheel.NewOf(cfg.Wheel, wheel.Funcs[V]{Due: p.due, Limit: cfg.Limit, Ended: p.wake})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	p.eviction.evicted = make(map[*Member[V]]time.Duration)
	p.eviction.tenTicks = 10 * p.wheel.Stats().Tick
	p.Resize(cfg.Capacity, cfg.MinIdle)
	return p, nil
}

// Join makes m a member, due after timeout without a touch. It returns [ErrFull] if there is no
// room, [wheel.ErrArgument] if m is a member or has been one, or if timeout is not positive, and
// [wheel.ErrClosed] after Close.
func (p *Pool[V]) Join(m *Member[V], v V, timeout time.Duration) error {
	if capacity := p.capacity.Load(); capacity > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		joins := timeout > 0 && !m.WasStarted() // or Start refuses it, and nobody has to go for that
		if joins && !p.makeRoom(int(capacity)) {
			return fmt.Errorf("%w: has its %d members", ErrFull, capacity)
		}
	}
	return p.wheel.Start(m, v, timeout)
}

// Resize changes [Config].Capacity and MinIdle. Zero or less means what zero means there.
// Members beyond the capacity stay.
func (p *Pool[V]) Resize(capacity int, minIdle time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.capacity.Store(int64(max(capacity, 0)))
	p.eviction.minIdle = cmp.Or(max(minIdle, 0), p.eviction.tenTicks)
	p.wake()
}

// Wheel returns the wheel with the deadlines: for the number of members, its time, its figures,
// and a walk through all members.
func (p *Pool[V]) Wheel() *wheel.WheelOf[V] { return p.wheel }

// Close removes all members without a call of Due, and stops the wheel. It does not wait
// for a running Due, and may be called from there. Closing again does nothing. It always
// returns nil.
func (p *Pool[V]) Close() error {
	p.close()
	p.wheel.Stop()
	return nil
}
