package pool

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Full says what a pool does that has as many members as it may have.
type Full int

const (
	// Reject is to refuse one more, with ErrFull.
	Reject Full = iota

	// Wait is Reject for whoever calls Add or Join; but [Pool.Wait] tells when there
	// is room.
	Wait

	// EvictIdlest is to let one more in and to take the member out that has not been
	// touched for longest, if that is long enough (Config.MinIdle). It is handed to
	// Config.Evict, and until that decides, a touch still saves it; so the pool may
	// for a moment have some more members than its capacity, at most maxEvicted.
	EvictIdlest
)

var fullNames = [...]string{"reject", "wait", "evict"}

func (f Full) String() string {
	if f < 0 || int(f) >= len(fullNames) {
		return fmt.Sprintf("Full(%d)", int(f))
	}
	return fullNames[f]
}

func (f Full) check(minIdle time.Duration, evicts bool) error {
	switch {
	case f < Reject || f > EvictIdlest:
		return fmt.Errorf("%w: Full %d, must be %d to %d", ErrArgument, f, Reject, EvictIdlest)
	case minIdle < 0:
		return fmt.Errorf("%w: MinIdle %v, must not be negative", ErrArgument, minIdle)
	case minIdle > 0 && f != EvictIdlest:
		return fmt.Errorf("%w: MinIdle %v is for Full %v, not for %v", ErrArgument, minIdle, EvictIdlest, f)
	case f == EvictIdlest && !evicts:
		return fmt.Errorf("%w: Full is %v, and Evict is nil", ErrArgument, f)
	}
	return nil
}

// Wait waits until there is room for one more, or ctx is done, whose error it
// returns then, or until the pool is closed. Somebody else may take the room.
func (p *Pool[V]) Wait(ctx context.Context) error {
	for {
		if capacity := p.Capacity(); capacity == 0 || p.Len() < capacity {
			p.wake() // there may be room for the next one who waits
			return nil
		}
		select {
		case <-p.left:
		case <-p.closed:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wake has one of those who wait look again.
func (p *Pool[V]) wake() {
	select {
	case p.left <- struct{}{}:
	default:
	}
}

const (
	// maxEvicted is how many members may be on their way out at a time.
	maxEvicted = 64

	// lookAmong is among how many of the members that are due next the idlest are
	// looked for, if so many of them are idle enough: where all have the same timeout,
	// the idlest are the first of them.
	lookAmong = 4096

	// lookAgain is after how many ticks they are looked for again if there were none.
	// Then all members have been looked at, and a storm of newcomers must not have
	// that done for each.
	lookAgain = 10
)

// eviction finds members to evict. Pool.mu guards it.
type eviction[V any] struct {
	minIdle time.Duration
	tick    time.Duration
	evicted []*Member[V] // handed over to Evict, which may not have decided yet

	// idlest are the next ones, the idlest last. They were when they were looked
	// for, and each is looked at again before it is taken.
	idlest []*Member[V]

	lookFrom uint64 // the first tick on which to look again
}

// makeRoom reports whether there is room for one more member, or will be. p.mu must
// be held.
func (p *Pool[V]) makeRoom(capacity int) bool {
	over := p.Len() + 1 - capacity
	if over <= 0 || p.full != EvictIdlest {
		return over <= 0
	}
	e := &p.eviction
	if over > maxEvicted {
		return false // the capacity has become a much smaller one
	}
	e.evicted = slices.DeleteFunc(e.evicted, func(m *Member[V]) bool { return !m.IsDue() })
	for len(e.evicted) < over {
		if len(e.evicted) == maxEvicted || !p.evictOne() {
			return false
		}
	}
	return true
}

// evictOne hands the idlest member over. It reports false where there is none that is
// idle enough. p.mu must be held.
func (p *Pool[V]) evictOne() bool {
	e := &p.eviction
	for {
		for len(e.idlest) > 0 {
			m := e.idlest[len(e.idlest)-1]
			e.idlest = e.idlest[:len(e.idlest)-1]
			if !e.isIdle(m) {
				continue // touched since
			}
			e.evicted = append(e.evicted, m) // before it is handed over
			if m.HandOver() {
				return true
			}
			e.evicted = e.evicted[:len(e.evicted)-1]
		}
		now := p.wheel.Now()
		if now < e.lookFrom {
			return false
		}
		if !p.look() {
			e.lookFrom = now + lookAgain
			return false
		}
	}
}

// look looks for members to evict and reports whether there are any. p.mu must be
// held.
func (p *Pool[V]) look() bool {
	e := &p.eviction
	e.idlest = slices.DeleteFunc(p.idlest(maxEvicted, lookAmong, e.minIdle), func(m *Member[V]) bool {
		return !e.isIdle(m)
	})
	slices.Reverse(e.idlest)
	return len(e.idlest) > 0
}

// isIdle reports whether a member may be evicted. The tick of its touch may have been
// nearly over.
func (e *eviction[V]) isIdle(m *Member[V]) bool { return m.Idle() >= e.minIdle+e.tick }

// isEvicted reports whether a member that was handed over is to be evicted.
func (p *Pool[V]) isEvicted(m *Member[V]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.eviction.evicted, m)
}
