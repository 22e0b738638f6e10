package wheel

// levels are the slots of the filed timers. A slot of the first level is one tick. A slot
// of a higher level is a block of ticks: a revolution of the level below.
//
// Before a block begins, the hand moves its timers down to the level below, some in each of
// the last ticks of the block before. So no tick costs more than its share, and no timer is
// late: all are in place when their block begins. For this a level below the top has slots
// for two revolutions, the present one and the next.
//
// A timer goes to the lowest level in reach of its deadline. In the top level a slot also
// holds timers due some revolutions later. When the hand comes by, they go to the end of
// the level once more. So one level is a wheel with rounds, and timers beyond the top level
// are spread over its slots. A list of their own would be looked through all at once: a million
// sessions of a week on a wheel of one minute are 50 ms of work in one tick each minute.
type levels[V any] struct {
	level []level
	slot  []slot[V] // of all levels, the finest first
	slots slots[V]
	early uint64 // a block's timers are in place so many ticks before it begins
}

type level struct {
	first int    // in slot
	size  uint64 // number of slots
	unit  uint64 // ticks of a slot
}

func makeLevels[V any](revolutions []int) levels[V] {
	var l levels[V]
	first, unit, top := 0, uint64(1), len(revolutions)-1
	for i, revolution := range revolutions {
		size := 2 * revolution
		if i == top {
			size = revolution + 2 // the hand's own block, and the one on its way down
		}
		l.level = append(l.level, level{first: first, size: uint64(size), unit: unit})
		first += size
		unit *= uint64(revolution)
	}
	l.slot = make([]slot[V], first)
	return l
}

// place returns the slot for a timer with the given due tick, later than hand. It also
// returns the tick of the visit: by then the hand has gone through the slot.
func (l *levels[V]) place(hand, due uint64) (slot int, visit uint64) {
	top := len(l.level) - 1
	for i := range l.level {
		v := &l.level[i]
		at, block := hand, due
		if i > 0 { // two divisions take longer than all the rest
			at, block = hand/v.unit, due/v.unit
		}
		if block-at >= v.size {
			if i < top {
				continue
			}
			block = at + 2 + (block-at-2)%(v.size-2) // some revolutions earlier
		}
		return v.first + int(block%v.size), block * v.unit
	}
	panic("unreachable")
}

// moveTicks is how many ticks before a block begins its timers begin to move down. All at once, a
// million took 21 ms; the longest pass takes about 1 ms (BenchmarkPassOfAMillion).
const moveTicks = 512

// take takes out all timers of a tick, and some of the next block of each level above. It
// returns their chunks, and the caller gives these back.
func (l *levels[V]) take(tick uint64) *chunk[V] {
	taken := l.slotOf(tick).empty()
	for i := 1; i < len(l.level); i++ {
		v := &l.level[i]
		next := tick/v.unit + 1
		s := &l.slot[v.first+int(next%v.size)]
		// With 1 tick left all move down. Then the slot is empty: place goes beyond the next block.
		if left := next*v.unit - tick - l.early; s.first != nil && left <= moveTicks {
			taken = s.share(int(left), tick, taken)
		}
	}
	return taken
}

// slotOf returns the slot of a tick, in the first level.
func (l *levels[V]) slotOf(tick uint64) *slot[V] { return &l.slot[tick%l.level[0].size] }
