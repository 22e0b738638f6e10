package wheel

import (
	"iter"
	"math/bits"
	"slices"
	"time"
)

// All returns an iterator over the timers running when the iteration begins, with their values, in
// no particular order. It leaves out timers ended before the iteration reaches them. To begin, it
// copies the references to all timers, 8 bytes each, under the wheel's lock: that takes about a
// millisecond for a million timers. Touches go on meanwhile.
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
	all := make([]*TimerOf[V], 0, w.live.Load()+8*chunkSize) // room for gaps and newcomers
	clear(all[:cap(all)])                                    // fresh memory takes long, and not under the lock
	w.mu.Lock()
	for _, c := range w.levels.slots.chunks {
		if c != nil {
			all = append(all, c.entry[:c.n]...)
		}
	}
	w.mu.Unlock()
	return slices.DeleteFunc(all, func(t *TimerOf[V]) bool { return t == nil }) // a gap in a chunk
}

// IdleSince looks at some of the timers, and returns the pending ones without a touch after the given
// instant of [WheelOf.Time]. A timer touched in the tick of the instant may be among them. looked is
// how many timers it has looked at, due ones included: some hundred at most, in a few microseconds.
//
// from is 0, or next of an earlier call, which goes on from there. So calls go round and round
// through all timers, and next is 0 at the end of a round. Timers filed one after the other are far
// apart in a round: each part of it is a sample of all timers. A timer may be missed or come twice
// if it is started, moved, or filed again by the hand during the round.
func (w *WheelOf[V]) IdleSince(at time.Duration, from uint32) (idle []*TimerOf[V], looked int, next uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	chunks := w.levels.slots.chunks
	width := bits.Len(uint(len(chunks)))
	after := w.clock.ticks(sum(1, at)) // first tick after the instant
	next = from
	for steps, visited := 0, 0; steps < stride && visited < breath; steps++ {
		// Next comes the chunk half of all away, then those a quarter away, and so on.
		if id := int(bits.Reverse32(next) >> (32 - width)); id < len(chunks) && chunks[id] != nil && chunks[id].n > 0 {
			c := chunks[id]
			c.fetch()
			for _, t := range c.entry[:c.n] {
				if t == nil {
					continue
				}
				looked++
				if word := t.word.Load(); word&stateMask == pending && touchedTick(word) < after {
					idle = append(idle, t)
				}
			}
			visited++
		}
		if next++; next>>width > 0 {
			return idle, looked, 0
		}
	}
	return idle, looked, next
}
