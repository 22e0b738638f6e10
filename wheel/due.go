package wheel

// A timer that is due is in one of two places until it is decided: in the
// backlog until a worker takes it up, and then among the undecided. In both, its
// filed says where, and wheel.mu guards them.

// backlog holds timers first in, first out. One that is touched or removed leaves
// at once: what is taken out is due.
type backlog[V any] struct {
	// first is the number of timers[0]. Numbers go on from 2^32-1 to 0.
	first  uint32
	timers []*TimerOf[V] // nil where one has left
	left   int           // nils among them
}

func (b *backlog[V]) len() int { return len(b.timers) - b.left }

func (b *backlog[V]) add(t *TimerOf[V]) {
	t.filed = b.first + uint32(len(b.timers))
	b.timers = append(b.timers, t)
}

// has reports whether t, which is due, is in the backlog.
func (b *backlog[V]) has(t *TimerOf[V]) bool {
	i := t.filed - b.first
	return uint64(i) < uint64(len(b.timers)) && b.timers[i] == t
}

// remove takes t out, which is in it.
func (b *backlog[V]) remove(t *TimerOf[V]) {
	b.timers[t.filed-b.first] = nil
	b.left++
	b.shrink()
}

// shrink gives the memory of a crowd back, and closes the gaps where they are more
// than what is left.
func (b *backlog[V]) shrink() {
	switch {
	case b.left == len(b.timers):
		b.timers, b.left = nil, 0
	case b.left > 64 && b.left > len(b.timers)/2:
		b.compact()
	}
}

func (b *backlog[V]) compact() {
	timers := b.timers
	b.timers, b.left = timers[:0], 0
	for _, t := range timers {
		if t != nil {
			b.add(t)
		}
	}
	clear(timers[len(b.timers):])
}

// pop takes out the timer that came first, or returns nil.
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
		b.left--
	}
	return nil
}

// all appends the timers to those given.
func (b *backlog[V]) all(to []*TimerOf[V]) []*TimerOf[V] {
	for _, t := range b.timers {
		if t != nil {
			to = append(to, t)
		}
	}
	return to
}

// undecided holds timers in no order.
type undecided[V any] []*TimerOf[V]

func (u *undecided[V]) add(t *TimerOf[V]) {
	t.filed = uint32(len(*u))
	*u = append(*u, t)
}

// remove takes t out, which is in it.
func (u *undecided[V]) remove(t *TimerOf[V]) {
	s := *u
	last := s[len(s)-1]
	s[t.filed] = last
	last.filed = t.filed
	s[len(s)-1] = nil
	if *u = s[:len(s)-1]; len(*u) == 0 {
		*u = nil // gives the memory of a crowd back
	}
}
