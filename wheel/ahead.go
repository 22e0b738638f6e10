package wheel

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// Ahead goes through the pending timers in the order of their deadlines, slot by slot. With
// the timers of a slot it yields an instant of [WheelOf.Time]: these timers, and all timers
// after them, were touched then or later. So Ahead finds the longest idle timers, too, and
// finds them first if all delays are much the same. Due timers are not among them.
//
// On the way Ahead files touched timers again, and saves the hand this work. So the first
// few timers cost as much as the touches since the last time, and not a look at every
// timer. The order of a slot is settled when the iteration reaches it. A timer may be
// missed or come twice if it is touched, started, or filed again by the hand meanwhile.
func (w *WheelOf[V]) Ahead() iter.Seq2[time.Duration, []*TimerOf[V]] {
	return func(yield func(time.Duration, []*TimerOf[V]) bool) {
		// A wide slot is settled at its turn, since some of its timers may be due soon. Its
		// other timers are due after those of narrower slots, and wait. A timer filed again
		// in a wide slot after the turn of this slot waits, too.
		var waiting turns[V]
		slots, end := w.slotsAhead()
		for _, s := range slots { // the last one is empty, and comes at end
			for _, t := range waiting.until(s.visit) {
				if !yield(w.touchedFrom(t.from), t.timers) {
					return
				}
			}
			w.settleAhead(s, end, &waiting)
		}
	}
}

// turn is timers due on a tick or after it. Ahead yields them on that tick.
type turn[V any] struct {
	from   uint64
	timers []*TimerOf[V]
}

// turns are the turns to come, in their order.
type turns[V any] []turn[V]

func (ts *turns[V]) add(from uint64, t *TimerOf[V]) {
	i, known := ts.find(from)
	if !known {
		*ts = slices.Insert(*ts, i, turn[V]{from: from})
	}
	(*ts)[i].timers = append((*ts)[i].timers, t)
}

// until takes out the turns up to a tick.
func (ts *turns[V]) until(tick uint64) (passed []turn[V]) {
	i, _ := ts.find(tick + 1)
	passed, *ts = (*ts)[:i:i], (*ts)[i:]
	return passed
}

// find returns the place of a tick's turn, and whether the turn is there.
func (ts turns[V]) find(from uint64) (int, bool) {
	return slices.BinarySearchFunc(ts, from, func(t turn[V], from uint64) int { return cmp.Compare(t.from, from) })
}

// touchedFrom returns the earliest possible last touch of a timer with a visit on the given
// tick: when it was filed, the visit was no further than w.longest from the touch.
func (w *WheelOf[V]) touchedFrom(visit uint64) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock.span(visit - min(w.longest, visit))
}

// slotAhead is a slot, and the tick of the hand's next visit.
type slotAhead struct {
	slot  int
	visit uint64
}

// slotsAhead returns all slots in the order of the hand's visits, those of higher levels
// first, and the first tick out of their reach: the next visit to the hand's own slot of the
// top level.
func (w *WheelOf[V]) slotsAhead() (ahead []slotAhead, end uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for slot := range w.levels.slot {
		visit := w.levels.next(w.hand, slot)
		ahead = append(ahead, slotAhead{slot, visit})
	}
	slices.SortFunc(ahead, func(a, b slotAhead) int {
		return cmp.Or(cmp.Compare(a.visit, b.visit), cmp.Compare(b.slot, a.slot))
	})
	return ahead, w.levels.reach(w.hand, len(w.levels.level)-1)
}

// settleAhead files the timers of a slot again, each in its present place. Timers shown by no
// later slot join the waiting ones. Those due at end or after it come at end. If the hand has
// come by already, the timers are for its next visit and join nobody.
func (w *WheelOf[V]) settleAhead(s slotAhead, end uint64, waiting *turns[V]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := w.levels.slot[s.slot].empty(); c != nil; {
		for _, t := range c.entry[:c.n] {
			at := t.word.Load()
			due, slot := t.dueTick(at), w.file(t, at)
			if slot != s.slot {
				w.refiled++
			}
			if visit := w.levels.next(w.hand, slot); visit > s.visit || visit == s.visit && slot < s.slot {
				continue // a later slot shows it
			}
			from := end
			if due < end { // its slot may be an earlier one: a limit, or a delay made shorter
				from = max(s.visit, w.levels.soonest(w.hand, slot))
			}
			waiting.add(from, t)
		}
		emptied := c
		c = c.next
		w.levels.slots.giveBack(emptied)
	}
}
