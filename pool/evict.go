package pool

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	// maxEvicted is how many members may be on their way out at a time, and how many the pool
	// remembers to evict next.
	maxEvicted = 64

	// searchAmong is about how many members the pool looks at for one newcomer: half a
	// millisecond of work at most. If nobody is found, the next newcomer goes on from there.
	searchAmong = 16_384

	// searchAgain is the pause after a look at all members for nothing. A storm of newcomers
	// must not repeat it for each.
	searchAgain = time.Second
)

// eviction finds members to evict: the idlest ones of a sample. If only few are idle enough, the
// sample grows until it is a round through all members. Pool.mu guards it.
type eviction[V any] struct {
	minIdle  time.Duration
	tenTicks time.Duration // the default of minIdle, and the shortest pause

	// evicted are the members handed over to make room, perhaps not decided yet: with the
	// instant, or 0 once Evict was called.
	evicted map[*Member[V]]time.Duration

	// sample are the next members to evict, the idlest first, and sampled is when they were
	// found. One touched since then is not the idlest any more.
	sample  []idler[V]
	sampled time.Duration

	next    uint32        // where the round goes on, see wheel.WheelOf.IdleSince
	inVain  int           // members looked at since somebody was handed over, or since the pause
	pauseTo time.Duration // the first instant to look again
}

// idler is a member, and the instant of its last touch.
type idler[V any] struct {
	member  *Member[V]
	touched time.Duration
}

// makeRoom reports whether there is room for one more member, or will be. p.mu must be
// held.
func (p *Pool[V]) makeRoom(capacity int) bool {
	over := p.wheel.Len() + 1 - capacity
	if over <= 0 || p.cfg.Full != EvictIdlest {
		return over <= 0
	}
	e := &p.eviction
	if over > maxEvicted {
		return false // the capacity has become a much smaller one
	}
	maps.DeleteFunc(e.evicted, func(m *Member[V], _ time.Duration) bool { return !m.IsDue() })
	now, looks := p.wheel.Time(0), searchAmong
	for len(e.evicted) < over {
		switch {
		case len(e.sample) > 0:
			m := e.sample[0].member
			e.sample = e.sample[1:]
			if p.mayEvict(m) && m.HandOverIdle(min(e.sampled, now-e.minIdle)) {
				e.evicted[m] = now // isEvicted waits for p.mu
				e.inVain = 0
			}
		case looks <= 0 || now < e.pauseTo:
			return false
		case e.inVain >= p.wheel.Len():
			e.inVain, e.pauseTo = 0, now+max(searchAgain, e.tenTicks)
		default:
			looks -= p.search(now, looks)
		}
	}
	return true
}

// search takes a new sample: of so many members, or of all if there are fewer. It returns how many
// it has looked at. p.mu must be held.
func (p *Pool[V]) search(now time.Duration, looks int) (looked int) {
	e := &p.eviction
	var found []idler[V]
	latest := now - e.minIdle
	for looks = min(looks, p.wheel.Len()); looked < looks; {
		idle, n, next := p.wheel.IdleSince(latest, e.next)
		for _, m := range idle {
			if touched, _ := m.Touched(); touched <= latest && p.mayEvict(m) {
				found = append(found, idler[V]{m, touched})
			}
		}
		slices.SortFunc(found, func(a, b idler[V]) int { return cmp.Compare(a.touched, b.touched) })
		if len(found) >= maxEvicted {
			found = found[:maxEvicted]
			latest = found[maxEvicted-1].touched
		}
		looked += max(n, 1) // perhaps a crowd has left only room
		e.next = next
	}
	e.inVain += looked
	e.sample, e.sampled = found, now
	return looked
}

// due is called with each due member.
func (p *Pool[V]) due(m *Member[V], v V) {
	if p.cfg.Full == EvictIdlest && p.isEvicted(m) {
		p.cfg.Evict(m, v)
	} else {
		p.cfg.Due(m, v)
	}
}

// isEvicted reports whether a due member was handed over to make room. It is true once, and not
// for a member saved before Evict could be called: that one is due for another reason.
func (p *Pool[V]) isEvicted(m *Member[V]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	evicted := p.eviction.evicted
	at, ok := evicted[m]
	if touched, _ := m.Touched(); !ok || touched >= at {
		delete(evicted, m)
		return false
	}
	evicted[m] = 0
	return true
}

func (p *Pool[V]) mayEvict(m *Member[V]) bool {
	v, running := m.Value()
	return running && (p.cfg.Evictable == nil || p.cfg.Evictable(v))
}
