package pool

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Idlest returns the values of the n members with the oldest touches, the idlest first, or
// of all members if there are fewer. Due members are not among them.
//
// It looks at all members, as [Pool.All] does: some 100 ms for a million. Touches go on meanwhile,
// and newcomers wait for some microseconds at most.
func (p *Pool[V]) Idlest(n int) []V {
	if n <= 0 {
		return nil
	}
	found := oldest[V]{most: n, latest: math.MaxInt64}
	for m := range p.All() {
		if touched, _ := m.Touched(); touched <= found.latest && !m.IsDue() {
			found.add(m, touched)
		}
	}
	var idlest []V
	for _, i := range found.sorted() {
		if v, running := i.member.Value(); running {
			idlest = append(idlest, v)
		}
	}
	return idlest
}

// oldest are the members with the oldest touches among those added.
type oldest[V any] struct {
	most   int           // members wanted
	found  []idler[V]    // those wanted are among them
	latest time.Duration // a member touched later is not wanted
}

// idler is a member, and the instant of its last touch.
type idler[V any] struct {
	member  *Member[V]
	touched time.Duration
}

func (o *oldest[V]) add(m *Member[V], touched time.Duration) {
	o.found = append(o.found, idler[V]{m, touched})
	if len(o.found)/2 > o.most {
		o.latest = o.sorted()[o.most-1].touched
	}
}

// sorted returns the members wanted, the idlest first.
func (o *oldest[V]) sorted() []idler[V] {
	slices.SortFunc(o.found, func(a, b idler[V]) int { return cmp.Compare(a.touched, b.touched) })
	o.found = o.found[:min(o.most, len(o.found))]
	return o.found
}
