package pool

import (
	"cmp"
	"slices"
	"time"
)

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
