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
		// other timers are due after those of narrower slots, and wait.
		var waiting []dueAhead[V]
		slots, end := w.slotsAhead()
		for _, s := range slots {
			for len(waiting) > 0 && waiting[0].from <= s.visit {
				if !yield(w.touchedFrom(waiting[0].from), waiting[0].timers) {
					return
				}
				waiting = waiting[1:]
			}
			found, later := w.settleAhead(s, end)
			if len(found.timers) > 0 && found.from <= s.visit {
				if !yield(w.touchedFrom(found.from), found.timers) {
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
			if !yield(w.touchedFrom(d.from), d.timers) {
				return
			}
		}
	}
}

// dueAhead are timers due on a tick or after it. Ahead yields them at the tick's turn.
type dueAhead[V any] struct {
	from   uint64
	timers []*TimerOf[V]
}

// touchedFrom returns the earliest possible last touch of a timer with a visit on the given
// tick: when it was filed, the visit was no further than w.longest from the touch.
func (w *WheelOf[V]) touchedFrom(visit uint64) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock.span(visit - min(w.longest, visit))
}

// slotAhead is a slot, the tick of the hand's next visit, and the number of ticks in it.
type slotAhead struct {
	slot        int
	visit, unit uint64
}

// slotsAhead returns all slots in the order of the hand's visits, the wider first, and the
// first tick without a slot.
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

// settleAhead files the timers of a slot again, each in its present place. It returns the
// timers that no later slot will show: they are due in the ticks of this slot, or of a
// wider slot before it. Timers due at end or after it are apart. It returns nothing if the
// hand has come by already.
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
			due, slot := t.dueTick(at), w.file(t, at)
			if slot != s.slot {
				w.refiled++
			}
			switch visit, unit := w.levels.next(w.hand, slot); {
			case visit > s.visit, visit == s.visit && unit < s.unit: // shown by a later slot
			case due < end:
				if visit < s.visit { // a limit, or a delay made shorter
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
