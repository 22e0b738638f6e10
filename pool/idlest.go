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
// It does not look at every member. It goes through the slots of the wheel in the order of
// their deadlines, until no later slot can have an idler member. With much the same
// timeouts it looks at the members touched since the last call, and at whole slots: a
// tick's worth of members for a timeout within the first level of the wheel, and many more
// for a longer one. A single member with a much longer timeout, now or earlier, makes it
// look at all of them. It holds the wheel's lock for one slot at a time.
func (p *Pool[V]) Idlest(n int) []V {
	if n <= 0 {
		return nil
	}
	var idlest []V
	for _, i := range p.idlest(n, math.MaxInt, 0, func(V) bool { return true }) {
		idlest = append(idlest, i.value)
	}
	return idlest
}

// idler is a member, its value, and the instant of its last touch.
type idler[V any] struct {
	member  *Member[V]
	value   V
	touched time.Duration
}

// idlest returns the n members with the oldest touches among those that are wanted. After a look at enough members, it
// is content with touches older than the given instant.
func (p *Pool[V]) idlest(n, enough int, older time.Duration, wanted func(v V) bool) []idler[V] {
	var found []idler[V]
	isFound := map[*Member[V]]bool{} // the wheel may show a member twice
	latest := time.Duration(math.MaxInt64)
	for from, timers := range p.wheel.Ahead() {
		if latest <= from || latest <= older && enough <= 0 {
			break
		}
		enough -= len(timers)
		for _, m := range timers {
			v, running := m.Value()
			if touched, _ := m.Touched(); running && touched < latest && !isFound[m] && wanted(v) {
				isFound[m] = true
				found = append(found, idler[V]{m, v, touched})
			}
		}
		slices.SortStableFunc(found, func(a, b idler[V]) int { return cmp.Compare(a.touched, b.touched) })
		if len(found) >= n {
			found = found[:n]
			latest = found[n-1].touched // and no member left out comes again
		}
	}
	return found
}
