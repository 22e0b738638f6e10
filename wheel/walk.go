package wheel

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// All returns the timers that are running at the moment of the call, in no
// particular order. It looks at each of them, under the wheel's lock: some
// milliseconds for 100,000 timers, in which touches go on.
func (w *WheelOf[V]) All() []*TimerOf[V] {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*TimerOf[V], 0, w.live.Load())
	for i := range w.levels.slot {
		all = w.levels.slot[i].first.timers(all)
	}
	for _, c := range w.turn {
		all = c.timers(all)
	}
	all = w.held.first.timers(all)
	return append(w.backlog.all(all), w.undecided...)
}

// Ahead goes through the pending timers in the order in which they are due, slot
// by slot. With the timers of a slot it yields a duration: none of them, and none
// of the timers after them, has been idle for longer. So it finds the timers that
// have been idle longest, too, and where the delays are much the same it finds
// them first. Timers that have become due are not among them.
//
// Timers that were moved since they were filed are filed again on the way, which
// is work that the hand then no longer has. So asking for the first few costs
// what has been touched since the last time, not a look at every timer. The
// order is that of the moment at which each slot is reached. A timer that is
// touched, added, or filed again by the hand meanwhile may be missed or come twice.
func (w *WheelOf[V]) Ahead() iter.Seq2[time.Duration, []*TimerOf[V]] {
	return func(yield func(time.Duration, []*TimerOf[V]) bool) {
		// A wide slot is settled when its turn comes, since some of its timers may be
		// due soon. The others are due after what narrower slots hold, and wait.
		var waiting []dueAhead[V]
		slots, end := w.slotsAhead()
		for _, s := range slots {
			for len(waiting) > 0 && waiting[0].from <= s.visit {
				if !yield(w.idleAtMost(waiting[0].from), waiting[0].timers) {
					return
				}
				waiting = waiting[1:]
			}
			found, later := w.settleAhead(s, end)
			if len(found.timers) > 0 && found.from <= s.visit {
				if !yield(w.idleAtMost(found.from), found.timers) {
					return
				}
			} else if len(found.timers) > 0 {
				waiting = append(waiting, found)
			}
			if len(later) > 0 {
				waiting = append(waiting, dueAhead[V]{end, later})
			}
			slices.SortStableFunc(waiting, func(a, b dueAhead[V]) int { return cmp.Compare(a.from, b.from) })
		}
		for _, d := range waiting {
			if !yield(w.idleAtMost(d.from), d.timers) {
				return
			}
		}
	}
}

// dueAhead are timers whose entries are visited, and that are due, on the given tick
// or after it.
type dueAhead[V any] struct {
	from   uint64
	timers []*TimerOf[V]
}

// idleAtMost returns how long ago a timer can have been touched whose entry is
// visited on the given tick. When it was filed it waited for w.longest at most,
// and if it was touched since, it has been idle for less.
func (w *WheelOf[V]) idleAtMost(visit uint64) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := w.longest + 1 + w.clock.now.Load()
	return w.clock.span(since - min(since, visit))
}

// slotAhead is a slot, and the ticks of the hand's next visit.
type slotAhead struct {
	slot        int
	visit, unit uint64
}

// slotsAhead returns all slots in the order in which the hand visits them, the
// wider first, and the first tick for which there is no slot yet.
func (w *WheelOf[V]) slotsAhead() (ahead []slotAhead, end uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for slot := range w.levels.slot {
		visit, unit := w.levels.next(w.hand, slot)
		ahead = append(ahead, slotAhead{slot, visit, unit})
		end = max(end, visit+unit)
	}
	slices.SortFunc(ahead, func(a, b slotAhead) int {
		return cmp.Or(cmp.Compare(a.visit, b.visit), cmp.Compare(b.unit, a.unit))
	})
	return ahead, end
}

// settleAhead files the timers of a slot where they belong by now, and returns
// those that no later slot will show: they are due in this slot's ticks, or in
// those of a wider slot before it. Those that are due at end or after are apart. It
// returns nothing if the hand has come by already.
func (w *WheelOf[V]) settleAhead(s slotAhead, end uint64) (found dueAhead[V], later []*TimerOf[V]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if visit, _ := w.levels.next(w.hand, s.slot); visit != s.visit {
		return dueAhead[V]{}, nil
	}
	found.from = max(s.visit, w.levels.reach(w.hand, s.slot))
	for c := w.levels.slot[s.slot].empty(); c != nil; {
		for _, t := range c.entry[:c.n] {
			at := t.word.Load()
			due, slot := dueOf(at), w.file(t, at)
			if slot != s.slot {
				w.refiled++
			}
			switch visit, unit := w.levels.next(w.hand, slot); {
			case visit > s.visit, visit == s.visit && unit < s.unit: // that one comes yet
			case due < end:
				if visit < s.visit { // a limit, or a delay that has become short
					found.from = s.visit
				}
				found.timers = append(found.timers, t)
			default:
				later = append(later, t)
			}
		}
		emptied := c
		c = c.next
		w.levels.slots.giveBack(emptied)
	}
	return found, later
}
