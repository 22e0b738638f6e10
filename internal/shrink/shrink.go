// Package shrink has a map that gives its memory back. A Go map never does: after a crowd of a million keys has
// left, it keeps room for a million.
package shrink

import "iter"

const (
	// smallest is the most keys of a map not worth making anew: it has some 4 KB.
	smallest = 64

	// batch is how many keys a call moves at most. A call takes a few microseconds then.
	batch = 16
)

// Map is a Go map that is made anew after a crowd has left. The zero Map is empty and ready to use. It must not be
// copied. As with a Go map, several goroutines may call Get, Len and All, while none calls Set or Delete.
//
// When less than a quarter of its keys are left, Set and Delete begin to move them to a new map, a few with each
// call. So no call waits for the whole of it. A key is moved once, and at least three have left for it, so the
// moves are O(1) for each key. After the last key has left there is no memory to speak of. If nobody calls Set or
// Delete any more, the old map stays.
type Map[K comparable, V any] struct {
	// A key is in one of these at most. old is not nil while its keys are moved, and never empty between two calls.
	keys, old map[K]V

	crowd int // most keys of keys since it was made
}

// Get returns the value of a key, or the zero V.
func (m *Map[K, V]) Get(key K) V {
	if v, ok := m.keys[key]; ok || m.old == nil {
		return v
	}
	return m.old[key]
}

// Set sets the value of a key.
func (m *Map[K, V]) Set(key K, value V) {
	if m.keys == nil {
		m.keys = make(map[K]V)
	}
	delete(m.old, key)
	m.keys[key] = value
	m.crowd = max(m.crowd, len(m.keys))
	m.move()
}

// Delete takes a key out of the map, if it is there.
func (m *Map[K, V]) Delete(key K) {
	delete(m.keys, key)
	delete(m.old, key)
	if m.old == nil && m.crowd > smallest && len(m.keys) < m.crowd/4 {
		m.keys, m.old, m.crowd = make(map[K]V), m.keys, 0
	}
	m.move()
}

// move moves a batch of the old keys.
func (m *Map[K, V]) move() {
	if m.old == nil {
		return
	}
	moved := 0
	for key, value := range m.old {
		if moved == batch {
			break
		}
		m.keys[key] = value
		delete(m.old, key)
		moved++
	}
	m.crowd = max(m.crowd, len(m.keys))
	if len(m.old) == 0 {
		m.old = nil
	}
}

// Len returns the number of keys.
func (m *Map[K, V]) Len() int { return len(m.keys) + len(m.old) }

// All returns an iterator over the keys and their values, in no particular order.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, of := range []map[K]V{m.keys, m.old} {
			for key, value := range of {
				if !yield(key, value) {
					return
				}
			}
		}
	}
}
