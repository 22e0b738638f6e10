package wheel

// levels are the slots in which timers are filed. A slot of the first level is one tick. A
// slot of a higher level is a block of ticks: a revolution of the level below. The hand
// visits the slot of a block when the block begins, and its timers go down to the tick or
// block of their deadline.
//
// A timer goes to the lowest level whose revolution reaches it. In the top level a slot
// also holds timers that are due some revolutions later; those stay there when the hand
// comes by. So one level is a wheel with rounds, and timers beyond the top level are spread
// over its slots. A list of their own would be looked through all at once.
type levels[V any] struct {
	level []level
	slot  []slot[V] // of all levels, the finest first
	slots slots[V]
}

type level struct {
	first int    // in slot
	size  uint64 // number of slots
	unit  uint64 // ticks of a slot
}

func makeLevels[V any](sizes []int) levels[V] {
	var l levels[V]
	first, unit := 0, uint64(1)
	for _, size := range sizes {
		l.level = append(l.level, level{first: first, size: uint64(size), unit: unit})
		first += size
		unit *= uint64(size)
	}
	l.slot = make([]slot[V], first)
	return l
}

// place returns the slot for a timer that is due later than hand, and the tick of the
// hand's next visit to that slot.
func (l *levels[V]) place(hand, due uint64) (slot int, visit uint64) {
	top := len(l.level) - 1
	for i := range l.level {
		v := &l.level[i]
		at, block := hand, due
		if i > 0 {
			at, block = hand/v.unit, due/v.unit
		}
		if block-at >= v.size {
			if i < top {
				continue
			}
			// Some revolutions later: the next time that the hand comes by.
			block = at + (block-at)%v.size
			if block == at {
				block += v.size
			}
		}
		return v.first + int(block%v.size), block * v.unit
	}
	panic("unreachable")
}

// file makes the entry of a timer that is due later than hand, and returns its
// slot.
func (l *levels[V]) file(t *TimerOf[V], hand, due uint64) (slot int) {
	slot, visit := l.place(hand, due)
	l.slots.put(&l.slot[slot], visit, t)
	return slot
}

// take empties all slots that the hand visits on tick and appends their lists of chunks to
// a slice. The caller gives the chunks back.
func (l *levels[V]) take(tick uint64, to []*chunk[V]) []*chunk[V] {
	for i := range l.level {
		v := &l.level[i]
		if tick%v.unit != 0 {
			break
		}
		if c := l.slot[v.first+int(tick/v.unit%v.size)].empty(); c != nil {
			to = append(to, c)
		}
	}
	return to
}

// reach returns the first tick too far from hand for the levels below that of a slot: no
// timer in the slot is due before it.
func (l *levels[V]) reach(hand uint64, slot int) uint64 {
	i := l.of(slot)
	if i == 0 {
		return 0
	}
	below := &l.level[i-1]
	return (hand/below.unit + below.size) * below.unit
}

// of returns the level of a slot.
func (l *levels[V]) of(slot int) int {
	i := len(l.level) - 1
	for l.level[i].first > slot {
		i--
	}
	return i
}

// next returns the tick of the hand's next visit to a slot, and the number of ticks in that
// slot.
func (l *levels[V]) next(hand uint64, slot int) (visit, unit uint64) {
	v := &l.level[l.of(slot)]
	at := hand / v.unit
	ahead := (uint64(slot-v.first) + v.size - at%v.size) % v.size
	if ahead == 0 {
		ahead = v.size
	}
	return (at + ahead) * v.unit, v.unit
}
