package fleet

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// Session is a session of this node. Its methods may be called by several goroutines at the
// same time.
type Session struct {
	node  *Node
	id    string
	conn  io.Closer
	meta  string
	timer wheel.TimerOf[*Session] // runs until the next renewal

	// good is when the node asked for the present lease, by its own monotonic clock. The
	// server's lease began later, so it ends later.
	good atomic.Int64

	mu    sync.Mutex // guards what follows, and is held while nothing else happens
	token token
	over  Reason // 0 while the node has it
	left  leave  // what Redis is told of the end
	slot  uint16 // of the id; never changes
	known uint32 // term of the slot at the last extension, see place

	unsure bool // may have been registered again: Redis did not answer
	waits  bool // to be extended, now or after its flight; the renewer's
	flies  bool // in flight; the renewer's
	kind   byte // of the registration; never changes
}

// guarded is a connection under a Keeper: its session ends with it. When the session is over, stop
// breaks that link: a connection can have many sessions, one after the other, and must not keep
// them all.
type guarded struct {
	io.Closer
	guard *keepalive.Guard
	life  context.Context // of the connection
	stop  func() bool
}

// isLeaving reports whether the Keeper has closed the connection for its client to come back on another node.
func (g *guarded) isLeaving() bool {
	why := error(g.guard.Binding().Reason())
	if why == nil { // or the program has, since it was told to
		why = context.Cause(g.life)
	}
	return errors.Is(why, keepalive.ReasonDrain) || errors.Is(why, keepalive.ReasonShed)
}

// leave says what becomes of a session after it has left its node.
type leave byte

const (
	leaveAlone  leave = iota // not for the node to say
	leaveEnd                 // it ends
	leaveKick                // it ends, since it was kicked
	leaveDetach              // it waits to be resumed
)

// ID returns the id of the registration.
func (s *Session) ID() string { return s.id }

// Conn returns the connection of the registration.
func (s *Session) Conn() io.Closer {
	if g, ok := s.conn.(*guarded); ok {
		return g.Closer
	}
	return s.conn
}

// Resumed reports whether the session had been detached when it was registered. If so, the
// program's state for its client is still of use.
func (s *Session) Resumed() bool { return s.kind == kindResumed }

// Moved reports whether the registration took the session from another connection, here or
// elsewhere.
func (s *Session) Moved() bool { return s.kind == kindMoved }

// Epoch returns the epoch, higher than those of all earlier registrations of the session. It
// changes only if Redis has lost its data and the node has registered the session again.
func (s *Session) Epoch() int64 { return s.claim().token.epoch() }

// Alive reports whether the node has the session and its lease is not over by the node's own
// clock. If the node has a lease, that must not be over either. While Alive is true, nobody was
// told of the session's end.
//
// When another node registers the session, it owns the session at once, and this node hears of
// it a message later. Until then Alive is true on both nodes. If Redis loses that message, this
// lasts until the next renewal. An action reserved for one node needs the epoch. Alive takes
// some nanoseconds.
func (s *Session) Alive() bool {
	now := s.node.elapsed()
	s.mu.Lock()
	over, known := s.over, s.known
	s.mu.Unlock()
	return over == 0 && now-time.Duration(s.good.Load()) < s.node.cfg.Lease && s.node.alive(s.slot, known, now)
}

// Reason returns why the node does not have the session any more, or 0 while it does.
func (s *Session) Reason() Reason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// Close ends the session because its connection has ended. It does not wait for Redis, and does
// not close the connection. It returns nil, and calling it again does nothing. If Config.Keeper closes the connection with
// keepalive.ReasonDrain or keepalive.ReasonShed, Close is Detach: the client is to come back on another node.
func (s *Session) Close() error {
	if g, ok := s.conn.(*guarded); ok && g.isLeaving() {
		s.Detach()
	} else {
		s.node.release(s, ReasonClosed, leaveEnd)
	}
	return nil
}

// Detach takes the session from its ended connection and keeps it waiting for its client. If
// nobody registers the session within Config.Resume, it ends with ReasonDetached. Otherwise
// Detach is like Close.
func (s *Session) Detach() { s.node.release(s, ReasonDetached, leaveDetach) }

func (s *Session) claim() claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return claim{s.id, s.token}
}

// finish marks the session as over, and reports whether this call did so.
func (s *Session) finish(reason Reason, left leave) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != 0 {
		return false
	}
	s.over, s.left = reason, left
	if g, ok := s.conn.(*guarded); ok && g.stop != nil {
		g.stop()
	}
	return true
}

// follow closes the session when the life of its guarded connection ends.
func (s *Session) follow(g *guarded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == 0 {
		g.stop = context.AfterFunc(g.life, func() { _ = s.Close() })
	}
}

// extended notes the present lease, asked for by the node at sent, under the term known.
func (s *Session) extended(sent time.Duration, known uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = known
	s.good.Store(int64(sent))
}

// renewed sets the token of a new registration. If the session is over already, renewed returns
// what to do with the new registration, since no connection uses it.
func (s *Session) renewed(t token) leave {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token, s.unsure = t, false
	if s.over == 0 {
		return leaveAlone
	}
	return cmp.Or(s.left, leaveDetach)
}

// doubt notes a possible new registration of the session, until renewed is called.
func (s *Session) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsure = true
}

func (s *Session) doubted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsure
}
