package keepalive

import (
	"fmt"
	"log/slog"
	"reflect"
	"sync"
)

// maxStrangers bounds how many types are remembered: a program may make types while it runs.
const maxStrangers = 1000

// strangers warns of Touch with a value that no Keeper knows: it compiles, and touches nobody.
var strangers = strangerTypes{known: map[reflect.Type]bool{}}

// strangerTypes are types of connections. A type is known after a Keeper has guarded a connection of it, or was
// asked to: such a connection is no mistake, guarded or not. It is known, too, after a warning.
type strangerTypes struct {
	mu    sync.RWMutex
	known map[reflect.Type]bool
}

// add notes the type of a connection, and reports whether it is news.
func (s *strangerTypes) add(conn any) (added bool) {
	t := reflect.TypeOf(conn)
	s.mu.RLock()
	known := s.known[t] || len(s.known) >= maxStrangers
	s.mu.RUnlock()
	if known {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[t] || len(s.known) >= maxStrangers {
		return false
	}
	s.known[t] = true
	return true
}

// warn warns of a connection, and of the one inside it, if their types are strange.
func (s *strangerTypes) warn(conn, innermost any) {
	if s.add(innermost) {
		slog.Default().Warn("keepalive: Touch of a value that no Keeper guards has no effect; is it the connection from the Keeper, or does a method NetConn lead to that?",
			"conn", fmt.Sprintf("%T", conn), "inside", fmt.Sprintf("%T", innermost))
	}
}
