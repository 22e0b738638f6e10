package wheel

// A due timer is in one of two places until it is decided: in the backlog until a worker
// takes it up, and then among the undecided. In both, the timer's filed is its place.
// wheel.mu guards them.

// backlog is a queue of due timers, first in, first out. A touched or removed timer leaves
// it at once.
type backlog[V any] struct {
	// first is the number of timers[0]. Numbers go on from 2^32-1 to 0.
	first  uint32
	timers []*TimerOf[V] // nil for a timer that has left
	gaps   int           // nils in timers
}

func (b *backlog[V]) len() int { return len(b.timers) - b.gaps }

func (b *backlog[V]) add(t *TimerOf[V]) {
	t.filed = b.first + uint32(len(b.timers))
	b.timers = append(b.timers, t)
}

// has reports whether t, a due timer, is in the backlog.
func (b *backlog[V]) has(t *TimerOf[V]) bool {
	i := t.filed - b.first
	return uint64(i) < uint64(len(b.timers)) && b.timers[i] == t
}

// remove takes out t. The backlog must have it.
func (b *backlog[V]) remove(t *TimerOf[V]) {
	b.timers[t.filed-b.first] = nil
	b.gaps++
	b.shrink()
}

// shrink gives back the memory of a crowd, and closes the gaps once they are in the
// majority.
func (b *backlog[V]) shrink() {
	switch {
	case b.gaps == len(b.timers):
		b.timers, b.gaps = nil, 0
	case b.gaps > 64 && b.gaps > len(b.timers)/2:
		b.compact()
	}
}

func (b *backlog[V]) compact() {
	timers := b.timers
	b.timers, b.gaps = timers[:0], 0
	for _, t := range timers {
		if t != nil {
			b.add(t)
		}
	}
	clear(timers[len(b.timers):])
}

// pop takes out the oldest timer, or returns nil if there is none.
func (b *backlog[V]) pop() *TimerOf[V] {
	for len(b.timers) > 0 {
		t := b.timers[0]
		b.timers[0] = nil
		b.timers = b.timers[1:]
		b.first++
		if t != nil {
			b.shrink()
			return t
		}
		b.gaps--
	}
	return nil
}

func (b *backlog[V]) all(to []*TimerOf[V]) []*TimerOf[V] {
	for _, t := range b.timers {
		if t != nil {
			to = append(to, t)
		}
	}
	return to
}

// undecided holds the due timers taken up by workers, in no order.
type undecided[V any] []*TimerOf[V]

func (u *undecided[V]) add(t *TimerOf[V]) {
	t.filed = uint32(len(*u))
	*u = append(*u, t)
}

// remove takes out t. It must be one of them.
func (u *undecided[V]) remove(t *TimerOf[V]) {
	s := *u
	last := s[len(s)-1]
	s[t.filed] = last
	last.filed = t.filed
	s[len(s)-1] = nil
	if *u = s[:len(s)-1]; len(*u) == 0 {
		*u = nil // gives back the memory of a crowd
	}
}
