package pool

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel"
)

var (
	// ErrClosed says that the pool has been closed.
	ErrClosed = errors.New("pool: closed")

	// ErrFull says that the pool has as many members as it may have. The error
	// that wraps it names that number.
	ErrFull = errors.New("pool: full")

	// ErrArgument says that an argument is outside of what is possible. The
	// error that wraps it names the value and the limit.
	ErrArgument = errors.New("pool: invalid argument")

	// ErrGone says that a member has left the pool, or has expired.
	ErrGone = errors.New("pool: member is gone")
)

// defaultTimeout is what a pool uses that was not told another.
const defaultTimeout = time.Minute

// Config is what a pool can be told. Due is required.
type Config[V any] struct {
	// Timeout is how long a member stays without a touch, unless it has a
	// timeout of its own. Zero means a minute.
	Timeout time.Duration

	// Capacity is how many members the pool may have. Zero means any number.
	Capacity int

	// Full says what happens to one more. The zero value is Reject.
	Full Full

	// MinIdle is for how long a member must not have been touched to be evicted
	// where Full is EvictIdlest. Zero means ten ticks.
	MinIdle time.Duration

	// Evict is Due for a member that is to make room where Full is EvictIdlest.
	Evict func(m *Member[V], v V)

	// Due is told when a member has not been touched for its timeout, by one of
	// the wheel's workers, with the member and its value. It ends the membership
	// with Expire, or gives the member more time with Postpone, at once or later;
	// until then the member is still in the pool, and a touch keeps it there. One
	// that was kept may be due again while the call before is still running.
	Due func(m *Member[V], v V)

	// Limit, if not nil, gives each member a limit that no touch moves, see
	// [wheel.WheelOf.SetLimit].
	Limit func(m *Member[V], v V) (tick uint64)

	// Wheel is how the deadlines are kept. The zero value is useful.
	Wheel wheel.Config
}

// Pool is a set of members with a deadline each. [New] makes one. All methods
// may be called by several goroutines at the same time, and from Due.
type Pool[V any] struct {
	wheel    *wheel.WheelOf[V]
	timeout  time.Duration
	capacity atomic.Int64
	full     Full
	left     chan struct{} // has something in it after a member has left
	closed   chan struct{}
	close    sync.Once

	// mu makes finding room and taking it one step. It is not used where there
	// is no capacity.
	mu       sync.Mutex
	eviction eviction[V]
}

// New makes a pool and starts its wheel. It returns [ErrArgument], wrapped with
// the values and their limit, where the config asks for something impossible.
func New[V any](cfg Config[V]) (*Pool[V], error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("%w: Timeout %v, must be positive", ErrArgument, cfg.Timeout)
	}
	if cfg.Capacity < 0 {
		return nil, fmt.Errorf("%w: Capacity %d, must not be negative", ErrArgument, cfg.Capacity)
	}
	if cfg.Due == nil {
		return nil, fmt.Errorf("%w: Due is nil", ErrArgument)
	}
	if err := cfg.Full.check(cfg.MinIdle, cfg.Evict != nil); err != nil {
		return nil, err
	}
	p := &Pool[V]{
		timeout: cfg.Timeout,
		full:    cfg.Full,
		left:    make(chan struct{}, 1),
		closed:  make(chan struct{}),
	}
	w, err := wheel.NewOf(cfg.Wheel, func(t *wheel.TimerOf[V], v V) {
		if m := (*Member[V])(t); cfg.Full == EvictIdlest && p.isEvicted(m) {
			cfg.Evict(m, v)
		} else {
			cfg.Due(m, v)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	p.wheel = w
	p.capacity.Store(int64(cfg.Capacity))
	p.eviction.minIdle, p.eviction.tick = cmp.Or(cfg.MinIdle, 10*w.Tick()), w.Tick()
	if cfg.Limit != nil {
		w.SetLimit(func(t *wheel.TimerOf[V], v V) uint64 { return cfg.Limit((*Member[V])(t), v) })
	}
	w.OnEnd(p.wake)
	return p, nil
}

// Add takes a new member into the pool. It returns [ErrFull] where there is no
// room, and [ErrClosed] after Close.
func (p *Pool[V]) Add(v V) (*Member[V], error) {
	m := new(Member[V])
	if err := p.Join(m, v); err != nil {
		return nil, err
	}
	return m, nil
}

// Join is Add for a member whose memory is the caller's: a field of its own
// struct. It returns [ErrArgument] where m is a member, or has been one.
func (p *Pool[V]) Join(m *Member[V], v V) error { return p.JoinFor(m, v, p.timeout) }

// JoinFor is Join with a timeout of the member's own.
func (p *Pool[V]) JoinFor(m *Member[V], v V, timeout time.Duration) error {
	if capacity := p.Capacity(); capacity > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.makeRoom(capacity) {
			return fmt.Errorf("%w: has its %d members", ErrFull, capacity)
		}
	}
	switch err := p.wheel.Start(m.timer(), v, timeout); {
	case errors.Is(err, wheel.ErrClosed):
		return ErrClosed
	case err != nil:
		return fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return nil
}

// Len returns the number of members.
func (p *Pool[V]) Len() int { return p.wheel.Len() }

// Has reports whether m is a member of this pool.
func (p *Pool[V]) Has(m *Member[V]) bool { return p.wheel.Has(m.timer()) }

// Capacity returns how many members the pool may have, or 0 for any number.
func (p *Pool[V]) Capacity() int { return int(p.capacity.Load()) }

// SetCapacity changes how many members the pool may have; 0 means any number, and
// so does less. Members that are too many by then stay.
func (p *Pool[V]) SetCapacity(n int) {
	p.capacity.Store(int64(max(n, 0)))
	p.wake()
}

// Timeout returns the timeout of members that have none of their own.
func (p *Pool[V]) Timeout() time.Duration { return p.timeout }

// Tick returns how precise the pool is.
func (p *Pool[V]) Tick() time.Duration { return p.wheel.Tick() }

// Counted returns how much of the last d counts in the timeouts of members: d less
// the time in which the process was stopped.
func (p *Pool[V]) Counted(d time.Duration) time.Duration { return p.wheel.Counted(d) }

// Now returns the number of the tick that the pool has reached, for Config.Limit.
func (p *Pool[V]) Now() uint64 { return p.wheel.Now() }

// TickIn returns the number of a tick that begins when d has passed from now, the first
// or the one after it.
func (p *Pool[V]) TickIn(d time.Duration) uint64 { return p.wheel.TickIn(d) }

// Stats returns the figures of the pool's wheel.
func (p *Pool[V]) Stats() wheel.Stats { return p.wheel.Stats() }

// Fill returns how full the slots of the pool's wheel are.
func (p *Pool[V]) Fill() []wheel.Level { return p.wheel.Fill() }

// All returns an iterator over the members that there are when the iteration
// begins, less those that have left when it reaches them, in no particular
// order. Members may be removed meanwhile.
func (p *Pool[V]) All() iter.Seq2[*Member[V], V] {
	return func(yield func(*Member[V], V) bool) {
		for _, t := range p.wheel.All() {
			if v, ok := t.Value(); ok && !yield((*Member[V])(t), v) {
				return
			}
		}
	}
}

// Idlest returns the n members that have not been touched for longest, or all
// members where there are fewer, the idlest first. Members that are due already
// are not among them.
//
// It does not look at every member: it goes through the slots of the wheel in the
// order in which their members are due, until no later one can have an idler
// member. Where the timeouts are much the same, that is what was touched since the
// last call, and whole slots: a tick's worth of members where the timeout is within
// the first of the wheel's levels, and many more where it is beyond. A single member
// that has or had a much longer timeout makes it look at all of them. It holds the
// wheel's lock for one slot at a time.
func (p *Pool[V]) Idlest(n int) []*Member[V] {
	if n <= 0 {
		return nil
	}
	return p.idlest(n, math.MaxInt, 0)
}

// idlest is Idlest, but may be content with members that have been idle for at least
// minIdle when it has looked at enough of them.
func (p *Pool[V]) idlest(n, enough int, minIdle time.Duration) []*Member[V] {
	type idler struct {
		m    *Member[V]
		idle time.Duration
	}
	var found []idler
	isFound := map[*Member[V]]bool{} // the wheel may show a member twice
	least := time.Duration(-1)       // the idle time that one must have had to be found
	for atMost, timers := range p.wheel.Ahead() {
		if least >= atMost || least >= minIdle && enough <= 0 {
			break
		}
		enough -= len(timers)
		for _, t := range timers {
			m := (*Member[V])(t)
			if idle := m.Idle(); idle > least && !isFound[m] {
				isFound[m] = true
				found = append(found, idler{m, idle})
			}
		}
		slices.SortStableFunc(found, func(a, b idler) int { return cmp.Compare(b.idle, a.idle) })
		for len(found) > n {
			delete(isFound, found[len(found)-1].m)
			found = found[:len(found)-1]
		}
		if len(found) == n {
			least = found[n-1].idle
		}
	}
	idlest := make([]*Member[V], len(found))
	for i, f := range found {
		idlest[i] = f.m
	}
	return idlest
}

// Close removes all members, without Due being told, and stops the wheel. It
// does not wait for a Due that is running, from which it may be called. Closing
// again does nothing. It returns nil, always.
func (p *Pool[V]) Close() error {
	p.close.Do(func() { close(p.closed) })
	p.wheel.Stop()
	return nil
}
