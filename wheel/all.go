package wheel

import (
	"iter"
	"slices"
)

// share is how many chunks are copied before others have the lock: 3,776 timers.
const share = 64

// All returns an iterator over the timers running when the iteration begins, with their values, in
// no particular order. It leaves out timers ended before the iteration reaches them, and may
// have timers started meanwhile. To begin, it copies the references to all timers, 8 bytes
// each, and lets others have the wheel's lock after each few thousand. Touches go on
// meanwhile.
func (w *WheelOf[V]) All() iter.Seq2[*TimerOf[V], V] {
	return func(yield func(*TimerOf[V], V) bool) {
		for _, t := range w.timers() {
			if v, ok := t.Value(); ok && !yield(t, v) {
				return
			}
		}
	}
}

// timers returns all timers, each once. While it goes through the chunks, timers get other
// places: those are noted, and left out where they were found.
func (w *WheelOf[V]) timers() []*TimerOf[V] {
	w.walking.Lock()
	defer w.walking.Unlock()
	all := make([]*TimerOf[V], 0, w.live.Load()) // not under the lock: fresh memory takes long
	clear(all[:cap(all)])
	var moved []*TimerOf[V]
	slots := &w.levels.slots
	w.mu.Lock()
	slots.moved = &moved
	for from, end := 0, len(slots.chunks); from < end; from += share {
		for _, c := range slots.chunks[from:min(from+share, end)] {
			if c != nil {
				all = c.own(all)
			}
		}
		w.letOthers()
	}
	slots.moved = nil
	w.mu.Unlock()
	return once(all, moved)
}

// once returns the timers of both slices, each once. A timer may be in each several times.
func once[V any](all, moved []*TimerOf[V]) []*TimerOf[V] {
	if len(moved) == 0 {
		return all
	}
	set := make(map[*TimerOf[V]]bool, len(moved))
	for _, t := range moved {
		set[t] = true
	}
	all = slices.DeleteFunc(all, func(t *TimerOf[V]) bool { return set[t] })
	for _, t := range moved { // in the order of the notes, for package explore
		if set[t] {
			set[t] = false
			all = append(all, t)
		}
	}
	return all
}
