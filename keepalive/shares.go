package keepalive

import (
	"fmt"
	"sync"

	"github.com/heartwheel-go/heartwheel/internal/shrink"
)

// shares counts the connections of each key, up to a limit: one address, or one user, can't
// have all the room there is. A key is forgotten with its last connection. The zero shares is
// empty and ready to use. It must not be copied.
//
// The empty key has no limit: take returns a nil share for it, and giveBack accepts a nil
// share.
//
// All methods are safe for concurrent use. They share a mutex: a
// touch needs none of them.
type shares struct {
	mu sync.Mutex
	of shrink.Map[string, *share] // the keys with connections, and no others
}

// share is the count of one key. All connections of the key keep the same pointer.
type share struct {
	key   string
	conns int // guarded by shares.mu; at least 1 while the key is in the map
}

// take takes one of the key's shares. ok is false if the key has most connections already. Only
// the first connection of a key allocates memory. The key is kept until its last connection has
// left: a part of a much longer string keeps all of the string.
func (s *shares) take(key string, most int) (taken *share, ok bool) {
	if key == "" {
		return nil, true
	}
	if most <= 0 {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	taken = s.of.Get(key)
	if taken == nil {
		taken = s.add(key)
	}
	if taken.conns >= most {
		return nil, false
	}
	taken.conns++
	return taken, true
}

// giveBack gives a share back. A nil share is fine.
//
// It panics if the key has no connections left, or if the share is of other shares: otherwise
// the limit would silently be another one from then on.
func (s *shares) giveBack(taken *share) {
	if taken == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of.Get(taken.key) != taken {
		panic(fmt.Sprintf("keepalive: a share of key %q was given back that nobody has", taken.key))
	}
	taken.conns--
	if taken.conns == 0 {
		s.of.Delete(taken.key)
	}
}

// keys returns the number of keys with connections.
func (s *shares) keys() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of.Len()
}

// add makes the share of a new key, without connections yet. s.mu must be held.
func (s *shares) add(key string) *share {
	added := &share{key: key}
	s.of.Set(key, added)
	return added
}
