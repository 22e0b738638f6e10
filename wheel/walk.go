package wheel

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// All returns the timers that are running at the moment of the call, in no
// particular order. It looks at each entry, under the wheel's lock: some
// milliseconds for 100,000 timers, in which touches go on.
func (w *WheelOf[V]) All() []*TimerOf[V] {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*TimerOf[V], 0, w.live.Load())
	type group struct {
		end   int // in all
		visit uint64
	}
	var groups []group
	add := func(entries []*TimerOf[V], visit uint64) {
		all = appendValid(all, entries, visit)
		groups = append(groups, group{len(all), visit})
	}
	for slot, entries := range w.levels.slots {
		if len(entries) > 0 {
			visit, _ := w.levels.next(w.hand, slot)
			add(entries, visit)
		}
	}
	for i, entries := range w.turn[w.turnAt.vector:] {
		if i == 0 {
			entries = entries[w.turnAt.entry:]
		}
		add(entries, w.hand)
	}
	add(w.held, w.clock.now.Load())

	begin := 0
	for _, g := range groups {
		for _, t := range all[begin:g.end] {
			t.filed = uint32(g.visit)
		}
		begin = g.end
	}
	return append(all, w.due...)
}

// appendValid appends the timers to all whose valid entries are among those of a
// slot, which is visited on the given tick. A leftover of a timer that was moved
// away and came back looks like its entry. So that the timer is there only once,
// appendValid invalidates filed; the caller must set it. w.mu must be held.
func appendValid[V any](all, entries []*TimerOf[V], visit uint64) []*TimerOf[V] {
	for _, t := range entries {
		if t.filed == uint32(visit) && t.word.Load()&stateMask == pending {
			t.filed = ^t.filed
			all = append(all, t)
		}
	}
	return all
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
// touched or added meanwhile may be missed or come twice, and one that had been
// moved to an earlier deadline and back may come twice too.
func (w *WheelOf[V]) Ahead() iter.Seq2[time.Duration, []*TimerOf[V]] {
	return func(yield func(time.Duration, []*TimerOf[V]) bool) {
		var later []*TimerOf[V] // due after a turn of the top level
		slots, end := w.slotsAhead()
		for _, s := range slots {
			idle, timers := w.settleAhead(s, end, &later)
			if len(timers) > 0 && !yield(idle, timers) {
				return
			}
		}
		if len(later) > 0 {
			w.mu.Lock()
			idle := w.idleAtMost(end)
			w.mu.Unlock()
			yield(idle, later)
		}
	}
}

// idleAtMost returns how long ago a timer can have been touched whose entry is
// visited on the given tick. When it was filed it waited for w.longest at most,
// and if it was touched since, it has been idle for less. w.mu must be held.
func (w *WheelOf[V]) idleAtMost(visit uint64) time.Duration {
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
	for slot := range w.levels.slots {
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
// those of a wider slot before it. Timers that are due at end or after are added
// to later. It returns nothing if the hand has come by already.
func (w *WheelOf[V]) settleAhead(s slotAhead, end uint64, later *[]*TimerOf[V]) (idle time.Duration, timers []*TimerOf[V]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	visit, _ := w.levels.next(w.hand, s.slot)
	entries := w.levels.slots[s.slot]
	if visit != s.visit || len(entries) == 0 {
		return 0, nil
	}
	w.levels.slots[s.slot] = nil
	w.entries -= len(entries)
	for _, t := range appendValid(nil, entries, visit) {
		at := t.word.Load()
		due, slot := dueOf(at), w.file(t, at)
		if slot != s.slot {
			w.refiled++
		}
		switch visit, unit := w.levels.next(w.hand, slot); {
		case visit > s.visit, visit == s.visit && unit < s.unit: // that one comes yet
		case due < end:
			timers = append(timers, t)
		default:
			*later = append(*later, t)
		}
	}
	w.levels.giveBack(entries)
	return w.idleAtMost(s.visit), timers
}
