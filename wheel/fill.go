package wheel

import "time"

// Level is one level of a wheel, at one moment: for pages that show it.
type Level struct {
	Span  time.Duration // of a slot
	Hand  int           // the slot that the hand has taken last
	Slots []int         // how many timers are filed in each
}

// Fill returns how full the slots of each level are, the finest level first. A timer
// that was touched since it was filed is still counted where it is filed, which is
// before its deadline; those that are due are in no slot. It looks at each full
// chunk of some sixty timers, and holds the wheel's lock for one slot at a time.
func (w *WheelOf[V]) Fill() []Level {
	fill := make([]Level, len(w.levels.level))
	for i, level := range w.levels.level {
		fill[i] = Level{Span: w.clock.span(level.unit), Slots: make([]int, level.size)}
		for slot := range fill[i].Slots {
			w.mu.Lock()
			fill[i].Slots[slot] = w.levels.slot[level.first+slot].first.count()
			fill[i].Hand = int(w.hand / level.unit % level.size)
			w.mu.Unlock()
		}
	}
	return fill
}

// count returns how many timers are in a list of chunks that the hand has not taken.
func (c *chunk[V]) count() (n int) {
	for ; c != nil; c = c.next {
		n += int(c.n)
	}
	return n
}
