package wheel

import (
	"fmt"
	"hash/maphash"
	"time"
)

// TimingWheel is a wheel of timers with a key each. Its methods have the names and the
// order of arguments of go-zero's TimingWheel, with a stricter contract:
//
//   - nothing fires early,
//   - a move shorter than the interval fires once,
//   - it is an error to move or remove a key not pending,
//   - a key set after Drain fires,
//   - and Stop may be called twice.
//
// A program with room for a pointer per timer is better served by [Wheel]: it is ten times
// as fast, and smaller.
//
// All methods are safe for concurrent use, and may be called from the functions
// called by the wheel.
type TimingWheel[K comparable, V any] struct {
	engine  *WheelOf[*entry[K, V]]
	execute func(key K, value V)
	seed    maphash.Seed
	shards  [1 << shardBits]shard[K, V]
}

// shardBits is the binary logarithm of how many keys can be set or removed at the same time
// without meeting at one lock, other than the wheel's.
const shardBits = 6

// NewTimingWheel starts a wheel with a tick of interval and numSlots slots. When a delay
// has passed, it calls execute with the key and the value. Delays may be longer than a
// revolution of the slots.
//
// Each opt can change the wheel's config, such as Stall or Workers, or add levels: they
// make the wheel cheaper if most delays are longer than a revolution.
//
// It returns [ErrArgument], wrapped with the value and its limit, if interval is shorter
// than 1ms, numSlots is not positive or greater than 2^24, execute is nil, or opt asks for
// something impossible.
func NewTimingWheel[K comparable, V any](interval time.Duration, numSlots int, execute func(key K, value V), opts ...func(*Config)) (*TimingWheel[K, V], error) {
	if interval < minTick {
		return nil, fmt.Errorf("%w: interval %v, must be at least %v", ErrArgument, interval, minTick)
	}
	if execute == nil {
		return nil, fmt.Errorf("%w: execute is nil", ErrArgument)
	}
	cfg := Config{Tick: interval, Levels: []int{numSlots}}
	for _, opt := range opts {
		opt(&cfg)
	}
	tw := &TimingWheel[K, V]{execute: execute, seed: maphash.MakeSeed()}
	engine, err := NewOf(cfg, Funcs[*entry[K, V]]{Due: tw.due})
	if err != nil {
		return nil, err
	}
	tw.engine = engine
	return tw, nil
}

// SetTimer makes key expire with value when delay has passed. If the key is pending, its
// value and its deadline are replaced. It returns [ErrArgument] if delay is not positive,
// or the key is nil or not equal to itself, and [ErrClosed] after Stop.
func (tw *TimingWheel[K, V]) SetTimer(key K, value V, delay time.Duration) error {
	if err := tw.check(key, delay); err != nil {
		return err
	}
	s, hash := tw.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, e := s.table.Load().find(key, hash)
	if e != nil && e.timer.delay == tw.engine.clock.ticks(delay) && e.timer.Touch() {
		e.value = value
		return nil
	}
	if e != nil {
		e.timer.Remove()
	}
	return tw.start(s, hash, key, value, delay)
}

// start starts a timer for a key that has none running. s.mu must be held.
func (tw *TimingWheel[K, V]) start(s *shard[K, V], hash uint64, key K, value V, delay time.Duration) error {
	e := &entry[K, V]{key: key, value: value}
	if err := tw.engine.Start(&e.timer, e, delay); err != nil {
		return err
	}
	s.put(e, hash)
	return nil
}

// MoveTimer sets the deadline of a pending key to delay from now. A nil error means: the
// key will be pending until then. It returns [ErrNotFound] if the key is not pending, and
// otherwise fails like SetTimer. If delay is the same as in the last SetTimer or MoveTimer of the
// key, it takes no lock and allocates nothing.
func (tw *TimingWheel[K, V]) MoveTimer(key K, delay time.Duration) error {
	s, hash := tw.shard(key)
	if _, e := s.table.Load().find(key, hash); e != nil && e.timer.delay == tw.engine.clock.ticks(delay) && e.timer.Touch() {
		return nil
	}
	if err := tw.check(key, delay); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, e := s.table.Load().find(key, hash)
	if e == nil {
		return tw.notFound()
	}
	if _, ok := e.timer.Remove(); !ok {
		return tw.notFound()
	}
	return tw.start(s, hash, key, e.value, delay)
}

// RemoveTimer makes a pending key never expire. It returns [ErrNotFound] if the key is not
// pending, [ErrArgument] for a nil key or NaN, and [ErrClosed] after Stop.
func (tw *TimingWheel[K, V]) RemoveTimer(key K) error {
	if err := tw.checkKey(key); err != nil {
		return err
	}
	s, hash := tw.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, e := s.table.Load().find(key, hash); e != nil {
		s.remove(e, hash)
		if _, ok := e.timer.Remove(); ok {
			return nil
		}
	}
	return tw.notFound()
}

// Drain removes all keys pending at the call, and calls fn once for each of them, on the
// caller's goroutine. It returns after the last call. A key set meanwhile may or may not be
// among them. It returns [ErrArgument] if fn is nil, and [ErrClosed] after Stop.
func (tw *TimingWheel[K, V]) Drain(fn func(key K, value V)) error {
	if tw.engine.closed.Load() {
		return ErrClosed
	}
	if fn == nil {
		return fmt.Errorf("%w: fn is nil", ErrArgument)
	}
	for i := range tw.shards {
		for _, e := range tw.shards[i].drain() {
			fn(e.key, e.value)
		}
	}
	return nil
}

// Stats returns the wheel's figures. Each key is one of its timers.
func (tw *TimingWheel[K, V]) Stats() Stats { return tw.engine.Stats() }

// Stop ends the wheel: pending keys never expire, and every later call returns [ErrClosed].
// It waits for the wheel's goroutine, but not for running functions, and may be called from
// them. Calling it again does nothing.
func (tw *TimingWheel[K, V]) Stop() {
	tw.engine.Stop()
	for i := range tw.shards {
		tw.shards[i].drain()
	}
}

// due runs on a worker of the wheel's.
func (tw *TimingWheel[K, V]) due(t *TimerOf[*entry[K, V]], e *entry[K, V]) {
	if _, ok := t.Expire(); ok {
		tw.execute(e.key, tw.forget(e))
	}
}

// forget takes an ended entry out of the table, unless the key has a new one, and returns
// its last value.
func (tw *TimingWheel[K, V]) forget(e *entry[K, V]) V {
	s, hash := tw.shard(e.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(e, hash)
	return e.value
}

func (tw *TimingWheel[K, V]) check(key K, delay time.Duration) error {
	if err := tw.checkKey(key); err != nil {
		return err
	}
	if delay <= 0 {
		return fmt.Errorf("%w: delay %v, must be positive", ErrArgument, delay)
	}
	return nil
}

func (tw *TimingWheel[K, V]) checkKey(key K) error {
	switch {
	case tw.engine.closed.Load():
		return ErrClosed
	case any(key) == nil:
		return fmt.Errorf("%w: key is nil", ErrArgument)
	case key != key: //nolint:gocritic // NaN, or a struct with one in it
		return fmt.Errorf("%w: key %v is not equal to itself", ErrArgument, key)
	}
	return nil
}

func (tw *TimingWheel[K, V]) notFound() error {
	if tw.engine.closed.Load() {
		return ErrClosed
	}
	return ErrNotFound
}

// shard returns the shard of a key and the key's hash. Its highest bits tell the shard.
func (tw *TimingWheel[K, V]) shard(key K) (s *shard[K, V], hash uint64) {
	hash = maphash.Comparable(tw.seed, key)
	return &tw.shards[hash>>(64-shardBits)], hash
}
