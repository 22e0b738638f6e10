package pool

import (
	"maps"
	"slices"
	"time"
)

const (
	// maxEvicted is how many members may be on their way out at a time.
	maxEvicted = 64

	// searchAmong is the number of members after which a search may end, in the order of
	// their deadlines: if it has found maxEvicted idle enough. With equal timeouts, the
	// idlest come first.
	searchAmong = 4096

	// searchAgain is the pause after a search without a result. Such a search has looked at
	// every member, and a storm of newcomers must not repeat it for each.
	searchAgain = time.Second
)

// eviction finds members to evict. Pool.mu guards it.
type eviction[V any] struct {
	minIdle time.Duration
	tick    time.Duration

	// evicted are the members handed over to make room, perhaps not decided yet: with the
	// instant, or 0 once Evict was called.
	evicted map[*Member[V]]time.Duration

	// idlest are the next members to evict, the idlest last. Each is looked at again before it
	// is evicted.
	idlest []*Member[V]

	searchFrom time.Duration // the first instant to search again
}

// makeRoom reports whether there is room for one more member, or will be. p.mu must be
// held.
func (p *Pool[V]) makeRoom(capacity int) bool {
	over := p.Len() + 1 - capacity
	if over <= 0 || p.full != EvictIdlest {
		return over <= 0
	}
	e := &p.eviction
	if over > maxEvicted {
		return false // the capacity has become a much smaller one
	}
	maps.DeleteFunc(e.evicted, func(m *Member[V], _ time.Duration) bool { return !m.IsDue() })
	for len(e.evicted) < over {
		if !p.evictOne() {
			return false
		}
	}
	return true
}

// evictOne hands the idlest member over. It reports false if no member is idle enough.
// p.mu must be held.
func (p *Pool[V]) evictOne() bool {
	e := &p.eviction
	now := p.wheel.Time(0)
	for {
		for len(e.idlest) > 0 {
			m := e.idlest[len(e.idlest)-1]
			e.idlest = e.idlest[:len(e.idlest)-1]
			if v, running := m.Value(); !running || !p.isEvictable(v) {
				continue
			}
			if m.HandOverIdle(now - e.minIdle) {
				e.evicted[m] = now // isEvicted waits for p.mu
				return true
			}
		}
		if now < e.searchFrom {
			return false
		}
		if !p.search(now) {
			e.searchFrom = now + max(searchAgain, 10*e.tick)
			return false
		}
	}
}

// search looks for members to evict and reports whether there are any. None may be left. p.mu must be held.
func (p *Pool[V]) search(now time.Duration) bool {
	e := &p.eviction
	for _, i := range p.idlest(maxEvicted, searchAmong, now-e.minIdle, p.isEvictable) {
		if i.touched <= now-e.minIdle {
			e.idlest = append(e.idlest, i.member)
		}
	}
	slices.Reverse(e.idlest)
	return len(e.idlest) > 0
}

// isEvicted reports whether a due member was handed over to make room. It is true once, and not
// for a member saved before Evict could be called: that one is due for another reason.
func (p *Pool[V]) isEvicted(m *Member[V]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	evicted := p.eviction.evicted
	at, ok := evicted[m]
	if !ok {
		return false
	}
	if touched, _ := m.Touched(); touched >= at {
		delete(evicted, m)
		return false
	}
	evicted[m] = 0
	return true
}

func (p *Pool[V]) isEvictable(v V) bool { return p.evictable == nil || p.evictable(v) }
