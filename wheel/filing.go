package wheel

import (
	"math"
	"time"
)

// The entry of a pending timer stands in the slot of some tick, and on this tick the hand
// visits the timer. A touch doesn't move the entry: the hand finds a later deadline, and
// files the timer again. So one rule has to hold for every pending timer: the visit comes
// no later than the deadline, nor than the deadline after a touch.

// visitBy returns the tick by which the hand must visit a timer with the given word. It is
// later than w.hand, and otherwise no later than
//
//   - the due tick, or the timer's limit,
//   - and the timer's own delay from now: a rearmed timer may wait for longer, but a touch
//     makes it due its own delay later.
//
// w.mu must be held.
func (w *WheelOf[V]) visitBy(t *TimerOf[V], at word) uint64 {
	by := min(t.dueTick(at), w.clock.ticks(w.limit(t)))
	if at&rearmed != 0 {
		// From w.hand, which the lock holds still: the clock may have moved on since a touch.
		by = min(by, w.hand+t.delay+1)
	}
	return max(by, w.hand+1)
}

// limit returns the limit of a running timer. w.mu must be held.
func (w *WheelOf[V]) limit(t *TimerOf[V]) time.Duration {
	if w.funcs.Limit == nil {
		return math.MaxInt64
	}
	return w.funcs.Limit(t.value)
}

// file makes the entry of a pending timer with the given word. w.mu must be held.
func (w *WheelOf[V]) file(t *TimerOf[V], at word) {
	by := w.visitBy(t, at) // may be after a deadline in the past
	w.rouse(by)
	slot, visit := w.levels.place(w.hand, by)
	w.levels.slots.put(&w.levels.slot[slot], visit, t)
}

// bringForward moves the entry of a pending timer with the given word if the visit would
// come too late. w.mu must be held.
func (w *WheelOf[V]) bringForward(t *TimerOf[V], at word) {
	s, by := &w.levels.slots, w.visitBy(t, at)
	if by < s.chunkOf(t).visit {
		s.remove(t, w.hand)
		w.file(t, at)
		return
	}
	w.rouse(by) // the slot may come by earlier, but the hand sleep beyond
}

// keep files a due timer again, with a new word. w.mu must be held.
func (w *WheelOf[V]) keep(t *TimerOf[V], next word) {
	w.levels.slots.remove(t, w.hand)
	t.word.Store(next)
	w.file(t, next)
}
