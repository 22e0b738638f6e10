package wheel

import "iter"

// All returns an iterator over the timers running when the iteration begins, with their values, in
// no particular order. It leaves out timers ended before the iteration reaches them. To begin, it
// copies the references to all timers, 8 bytes each, under the wheel's lock: that takes some two
// milliseconds for a million timers. Touches go on meanwhile.
func (w *WheelOf[V]) All() iter.Seq2[*TimerOf[V], V] {
	return func(yield func(*TimerOf[V], V) bool) {
		for _, t := range w.timers() {
			if v, ok := t.Value(); ok && !yield(t, v) {
				return
			}
		}
	}
}

// timers returns all timers.
func (w *WheelOf[V]) timers() []*TimerOf[V] {
	all := make([]*TimerOf[V], 0, w.live.Load())
	clear(all[:cap(all)]) // fresh memory takes long, and not under the lock
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.levels.slots.chunks {
		if c != nil {
			all = c.own(all)
		}
	}
	return all
}
