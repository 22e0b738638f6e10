package wheel

import "math"

// A slot holds its timers in chunks. A timer's filed is the place of its entry, so the
// entry can be taken out at once: a timer leaves nothing behind when it is removed, or
// moved to an earlier tick.
//
// A vector would be copied when it grows. With links from timer to timer the hand could
// look at a timer only after the memory of the one before has arrived.
type chunk[V any] struct {
	next, prev *chunk[V]
	slot       *slot[V]
	visit      uint64 // tick of the slot's visit; hand's own once taken
	id         uint32 // index in slots.chunks
	n          uint32 // entries
	entry      [chunkSize]*TimerOf[V]
}

const (
	// A chunk has 512 bytes, on a machine of 64 bits.
	chunkBits = 6
	chunkSize = 1<<chunkBits - 5

	// minSpare is how many empty chunks are kept for the next timers, or a quarter of the
	// chunks in use if the quarter is more. The memory of a crowd is given back when the
	// crowd has gone.
	minSpare = 64

	// never is the tick of a visit for timers not to be visited by the hand: the due ones.
	never = math.MaxUint64
)

// slot is a list of chunks. All but the last are full.
type slot[V any] struct {
	first, last *chunk[V]
	len         int // timers
}

// queue is a slot whose timers come out by pop, in the order in which they went in. If one is
// removed from the middle, the last one takes its place: nobody's turn comes later for that.
type queue[V any] struct {
	slot[V]
	popped uint32 // entries of the first chunk
}

// slots has the memory of all slots.
type slots[V any] struct {
	chunks []*chunk[V] // by id
	free   []uint32    // unused ids
	spare  *chunk[V]
	spares int
}

// put adds t to a slot with its visit on the given tick.
func (s *slots[V]) put(to *slot[V], visit uint64, t *TimerOf[V]) {
	c := to.last
	if c == nil || c.n == chunkSize {
		c = s.get()
		c.prev, c.slot, c.visit = to.last, to, visit
		if to.last == nil {
			to.first = c
		} else {
			to.last.next = c
		}
		to.last = c
	}
	c.entry[c.n] = t
	t.filed = c.id<<chunkBits | c.n
	c.n++
	to.len++
}

// chunkOf returns the chunk with the entry of t.
func (s *slots[V]) chunkOf(t *TimerOf[V]) *chunk[V] { return s.chunks[t.filed>>chunkBits] }

// pop takes the first timer out of a queue that is not empty.
func (s *slots[V]) pop(from *queue[V]) *TimerOf[V] {
	c := from.first
	t := c.entry[from.popped]
	c.entry[from.popped] = nil
	from.popped++
	from.len--
	if from.popped == c.n {
		from.popped = 0
		c.unlink()
		s.giveBack(c)
	}
	return t
}

// remove takes out t. hand is the tick of the slots taken last.
func (s *slots[V]) remove(t *TimerOf[V], hand uint64) {
	c, i := s.chunkOf(t), t.filed&(1<<chunkBits-1)
	if c.visit <= hand { // taken, and being visited
		c.entry[i] = nil
		return
	}
	last := c.slot.last
	last.n--
	c.slot.len--
	moved := last.entry[last.n]
	last.entry[last.n] = nil
	if moved != t {
		c.entry[i], moved.filed = moved, t.filed
	}
	if last.n == 0 {
		last.unlink()
		s.giveBack(last)
	}
}

// unlink takes a chunk out of its slot, but for its timers in the slot's count.
func (c *chunk[V]) unlink() {
	if c.prev == nil {
		c.slot.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		c.slot.last = c.prev
	} else {
		c.next.prev = c.prev
	}
}

// empty takes all chunks out of a slot, and returns the first.
func (to *slot[V]) empty() *chunk[V] {
	c := to.first
	*to = slot[V]{}
	return c
}

// share takes the first chunks out of a slot: so many that left calls, one per tick, take
// all. It returns them, linked before those taken already. tick is the hand's.
func (to *slot[V]) share(left int, tick uint64, taken *chunk[V]) *chunk[V] {
	chunks := (to.len + chunkSize - 1) / chunkSize
	for range (chunks + left - 1) / left {
		c := to.first
		c.unlink()
		to.len -= int(c.n)
		c.visit, c.next, taken = tick, taken, c
	}
	return taken
}

func (s *slots[V]) get() *chunk[V] {
	if c := s.spare; c != nil {
		s.spare, c.next = c.next, nil
		s.spares--
		return c
	}
	c := new(chunk[V])
	if n := len(s.free); n > 0 {
		c.id, s.free = s.free[n-1], s.free[:n-1]
		s.chunks[c.id] = c
	} else {
		c.id = uint32(len(s.chunks))
		s.chunks = append(s.chunks, c)
	}
	return c
}

// giveBack takes a chunk back after it was taken out of its slot.
func (s *slots[V]) giveBack(c *chunk[V]) {
	if inUse := len(s.chunks) - len(s.free) - s.spares; s.spares >= max(minSpare, inUse/4) {
		s.chunks[c.id] = nil
		s.free = append(s.free, c.id)
		return
	}
	clear(c.entry[:c.n])
	c.n, c.slot, c.prev, c.next = 0, nil, nil, s.spare
	s.spare = c
	s.spares++
}

// fetch looks at all timers, to bring their memory into the cache in parallel. A visit does
// more than look, so visits alone would fetch one timer after the other.
func (c *chunk[V]) fetch() {
	for _, t := range c.entry[:c.n] {
		if t != nil {
			t.word.Load()
		}
	}
}
