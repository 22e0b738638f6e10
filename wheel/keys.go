package wheel

import (
	"sync"
	"sync/atomic"
)

// entry is a key of a [TimingWheel] with its timer.
type entry[K comparable, V any] struct {
	key   K                     // beside what a move reads of the timer
	timer TimerOf[*entry[K, V]] // its delay never changes
	value V                     // guarded by the mu of the key's shard
}

// shard finds the entries of its keys: a hash table with open addressing and linear
// probing. find takes no lock and writes nothing, so lookups on several processors don't
// disturb each other. The price is that it may miss an entry while others come or go, and
// may find one that has ended. A touch of what it finds is right all the same, for the
// timer's word tells whether it runs, and a key has one running timer. Whoever must know
// holds mu.
type shard[K comparable, V any] struct {
	mu    sync.Mutex // held for all changes
	len   int
	table atomic.Pointer[table[K, V]] // nil if there are no keys

	_ [cacheLine - 24]byte
}

// table is a power of two of places. An entry is in the first place that was free when it
// came, from its hash on.
type table[K comparable, V any] []place[K, V]

type place[K comparable, V any] struct {
	hash  atomic.Uint64
	entry atomic.Pointer[entry[K, V]]
}

// smallestTable is the fewest places worth a smaller table.
const smallestTable = 8

// find returns the entry of a key and its place, or the place to put it in and nil. An
// entry on its way to another place can't make it run in circles. Without mu it may miss
// the entry. A nil table has no places.
func (t *table[K, V]) find(key K, hash uint64) (*place[K, V], *entry[K, V]) {
	if t == nil {
		return nil, nil
	}
	places := *t
	mask := uint64(len(places) - 1)
	for i := range uint64(len(places)) {
		p := &places[(hash+i)&mask]
		e := p.entry.Load()
		if e == nil || p.hash.Load() == hash && e.key == key {
			return p, e
		}
	}
	return nil, nil
}

// put makes e the entry of its key. mu must be held.
func (s *shard[K, V]) put(e *entry[K, V], hash uint64) {
	t := s.table.Load()
	p, old := t.find(e.key, hash)
	if old == nil {
		s.len++
		if t == nil {
			p, _ = s.resize(smallestTable).find(e.key, hash)
		} else if s.len > len(*t)/4*3 {
			p, _ = s.resize(2*len(*t)).find(e.key, hash)
		}
	}
	p.hash.Store(hash)
	p.entry.Store(e)
}

// remove takes e out, unless its key has another entry. mu must be held.
func (s *shard[K, V]) remove(e *entry[K, V], hash uint64) {
	t := s.table.Load()
	p, found := t.find(e.key, hash)
	if found != e {
		return
	}
	t.free(p, hash)
	s.len--
	switch {
	case s.len == 0:
		s.table.Store(nil)
	case len(*t) > smallestTable && s.len < len(*t)/8:
		s.resize(len(*t) / 2)
	}
}

// free empties a place. The entries behind it that were turned away from it move up, so
// that no search for one of them ends too early.
func (t table[K, V]) free(gap *place[K, V], hash uint64) {
	mask := uint64(len(t) - 1)
	at := hash & mask
	for gap != &t[at] {
		at = (at + 1) & mask
	}
	for i := (at + 1) & mask; ; i = (i + 1) & mask {
		e, home := t[i].entry.Load(), t[i].hash.Load()
		if e == nil {
			break
		}
		if (i-home)&mask >= (i-at)&mask {
			t[at].hash.Store(home)
			t[at].entry.Store(e)
			at = i
		}
	}
	t[at].entry.Store(nil)
}

// resize makes a table of another size, and leaves the old one to the searches under way.
func (s *shard[K, V]) resize(places int) *table[K, V] {
	t := make(table[K, V], places)
	if old := s.table.Load(); old != nil {
		for i := range *old {
			if e := (*old)[i].entry.Load(); e != nil {
				hash := (*old)[i].hash.Load()
				p, _ := t.find(e.key, hash)
				p.hash.Store(hash)
				p.entry.Store(e)
			}
		}
	}
	s.table.Store(&t)
	return &t
}

// drain removes all keys, and returns the entries of those whose timers were running.
func (s *shard[K, V]) drain() (entries []*entry[K, V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.table.Load(); t != nil {
		for i := range *t {
			if e := (*t)[i].entry.Load(); e != nil {
				if _, ok := e.timer.Remove(); ok {
					entries = append(entries, e)
				}
			}
		}
	}
	s.table.Store(nil)
	s.len = 0
	return entries
}
