package wheel

// levels are the slots in which timers are filed. A slot of the first level is
// one tick; a slot of another is a block of as many ticks as a turn of the level
// below has. The hand visits the slot of a block when the block begins, and what
// is filed there goes down to the tick or block where it is due.
//
// A timer goes to the lowest level whose turn reaches it. In the top level a
// slot also holds what is due some turns later; that stays there when the hand
// comes by. So one level is a wheel with rounds, and what lies beyond several
// levels is spread over the top one instead of waiting in a list of its own,
// which would be looked through all at once.
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

// place returns the slot for a timer that is due later than hand, and the tick
// on which the hand visits that slot next.
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
			// Some turns later: the next time that the hand comes by.
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

// take empties all slots that the hand visits on tick and adds what was in them
// to turn. The caller gives the chunks back.
func (l *levels[V]) take(tick uint64, turn []*chunk[V]) []*chunk[V] {
	for i := range l.level {
		v := &l.level[i]
		if tick%v.unit != 0 {
			break
		}
		if c := l.slot[v.first+int(tick/v.unit%v.size)].empty(); c != nil {
			turn = append(turn, c)
		}
	}
	return turn
}

// reach returns the first tick that is too far from hand for the levels below that of
// a slot, so that what is filed there is visited on that tick or after it.
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

// next returns the tick on which the hand, now on the given tick, visits a slot
// next, and the number of ticks for which that slot stands.
func (l *levels[V]) next(hand uint64, slot int) (visit, unit uint64) {
	v := &l.level[l.of(slot)]
	at := hand / v.unit
	ahead := (uint64(slot-v.first) + v.size - at%v.size) % v.size
	if ahead == 0 {
		ahead = v.size
	}
	return (at + ahead) * v.unit, v.unit
}
