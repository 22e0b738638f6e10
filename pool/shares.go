package pool

import (
	"fmt"
	"sync"
)

// smallestRemade is the most keys of a map that is not worth making anew: it has
// some 4 KB.
const smallestRemade = 64

// Shares counts how many members each key has, up to a most for each: so that one
// address, or one user, can't have all the room that there is. A key is forgotten
// with its last member, so what it needs is bounded by the members that there are.
// The zero Shares is empty and ready to use. It must not be copied.
//
// The empty key has no shares and no limit: [Shares.Take] returns a nil [Share] for
// it, which [Shares.GiveBack] takes.
//
// All methods may be called by several goroutines at the same time. They share a
// mutex: this is for the beginning and the end of a membership, not for a touch.
type Shares struct {
	mu sync.Mutex

	// of has the keys that have members, and no others. A Go map never gives its
	// memory back, so it is made anew after a crowd has left.
	of map[string]*Share

	// crowd is the most keys that of has had since it was made.
	crowd int
}

// Share is the count of one key. Each member of the key keeps the same pointer to
// it, which is what [Shares.GiveBack] wants back.
type Share struct {
	key     string
	members int // guarded by Shares.mu; at least 1 while the key is in the map
}

// Take takes one of the key's shares and reports whether it did: ok is false where
// the key has as many members as most, or more. A most that isn't positive gives
// nobody a share. It may be another one with each call.
//
// Only the first member of a key allocates memory. The key is kept until the last
// has left: a part of a much longer string keeps all of that.
func (s *Shares) Take(key string, most int) (share *Share, ok bool) {
	if key == "" {
		return nil, true
	}
	if most <= 0 {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	share = s.of[key]
	if share == nil {
		share = s.add(key)
	}
	if share.members >= most {
		return nil, false
	}
	share.members++
	return share, true
}

// GiveBack gives one back. A nil share is fine, and does nothing.
//
// It panics where the key has no members left to give one back, or where the share
// is of other Shares: somebody has given back what was not theirs, and the limit
// would silently be another one from then on. A share that is given back twice while
// its key has other members can't be told from one of theirs.
func (s *Shares) GiveBack(share *Share) {
	if share == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[share.key] != share {
		panic(fmt.Sprintf("pool: a share of key %q was given back that nobody has", share.key))
	}
	share.members--
	if share.members == 0 {
		s.forget(share.key)
	}
}

// Keys returns the number of keys that have members now.
func (s *Shares) Keys() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of)
}

// add makes the share of a key that has none, with no members yet. s.mu must be
// held.
func (s *Shares) add(key string) *Share {
	if s.of == nil {
		s.of = map[string]*Share{}
	}
	share := &Share{key: key}
	s.of[key] = share
	s.crowd = max(s.crowd, len(s.of))
	return share
}

// forget takes a key out of the map, and makes the map anew where less than a
// quarter is left of what it held. That copies fewer keys than a third of those
// that had to leave since the last time. s.mu must be held.
func (s *Shares) forget(key string) {
	delete(s.of, key)
	if s.crowd <= smallestRemade || len(s.of) >= s.crowd/4 {
		return
	}
	remade := make(map[string]*Share, len(s.of))
	for key, share := range s.of {
		remade[key] = share
	}
	s.of, s.crowd = remade, len(remade)
}
