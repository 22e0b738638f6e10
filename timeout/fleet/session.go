package fleet

import (
	"cmp"
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// Session is one that this node has. Its methods may be called by several goroutines at the
// same time.
type Session struct {
	node  *Node
	id    string
	conn  io.Closer
	meta  string
	timer wheel.TimerOf[*Session] // runs until the next renewal

	// good is when the node asked for what gave it the lease that it has, by its own clock that
	// knows no steps: the server's lease ends later than this one.
	good atomic.Int64

	mu    sync.Mutex // guards what follows, and is held while nothing else happens
	token token
	over  Reason // 0 while the node has it
	left  leave  // what over is to Redis
	slot  uint16 // of its id, which stays as it is
	known uint32 // the term of its slot under which it was extended, see place

	unsure bool // it may have been registered again: there was no answer
	waits  bool // it is to be extended, now or after its flight: the renewer's
	flies  bool // it is in flight: the renewer's
	kind   byte // of its registration, which stays as it is
}

// guarded is a connection whose end its session follows, until that is over itself: a
// connection can have many sessions, one after the other, and must not keep them all.
type guarded struct {
	io.Closer
	stop func() bool
}

// leave says what becomes of a session that its node does not have any more.
type leave byte

const (
	leaveAlone  leave = iota // it is not the node's to say
	leaveEnd                 // it ends
	leaveDetach              // it waits to be resumed
)

// ID is what it was registered as.
func (s *Session) ID() string { return s.id }

// Conn is the connection that it was registered with.
func (s *Session) Conn() io.Closer {
	if g, ok := s.conn.(*guarded); ok {
		return g.Closer
	}
	return s.conn
}

// Resumed reports whether it had been detached when it was registered, so that what the program
// has kept for its client is still of use.
func (s *Session) Resumed() bool { return s.kind == kindResumed }

// Moved reports whether another connection, here or elsewhere, had it until it was registered.
func (s *Session) Moved() bool { return s.kind == kindMoved }

// Epoch is higher than those of all registrations of the session before. It changes only where
// Redis has lost its data and the node has registered the session again.
func (s *Session) Epoch() int64 { return s.claim().token.epoch() }

// Alive reports whether the node has the session, and its lease is not over by the node's own
// clock, nor is that of the node where this has one: nobody was told that it is offline. Who
// registers the session elsewhere has it at once, and this node hears of it a message later: until
// then, and where Redis has lost that message until the next renewal, both say yes. What only one
// may do needs the epoch. Alive takes some nanoseconds.
func (s *Session) Alive() bool {
	now := s.node.elapsed()
	s.mu.Lock()
	over, known := s.over, s.known
	s.mu.Unlock()
	return over == 0 && now-time.Duration(s.good.Load()) < s.node.cfg.Lease && s.node.alive(s.slot, known, now)
}

// Reason is why the node does not have it any more, or 0 while it does.
func (s *Session) Reason() Reason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// Close says that the connection has ended, and the session with it. It does not wait for Redis,
// and does not close the connection. It returns nil, and calling it again does nothing.
func (s *Session) Close() error {
	s.node.release(s, ReasonClosed, leaveEnd)
	return nil
}

// Detach says that the connection has ended, and that the session waits for its client to come
// back: it ends with ReasonDetached if nobody registers it within Config.Resume. It is
// otherwise like Close.
func (s *Session) Detach() { s.node.release(s, ReasonDetached, leaveDetach) }

func (s *Session) claim() claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return claim{s.id, s.token}
}

// finish has the session be over, and reports whether it was this call that did so.
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

// follow has it be closed when the life of its guarded connection ends.
func (s *Session) follow(life context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == 0 {
		s.conn.(*guarded).stop = context.AfterFunc(life, func() { _ = s.Close() })
	}
}

// extended notes that its node asked at sent, under a term, for the lease that it has now.
func (s *Session) extended(sent time.Duration, known uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = known
	s.good.Store(int64(sent))
}

// renewed gives it the token of a new registration. Where it is over meanwhile, it returns what
// has to be done with that one: it is there for nobody, whoever had the one before.
func (s *Session) renewed(t token) leave {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token, s.unsure = t, false
	if s.over == 0 {
		return leaveAlone
	}
	return cmp.Or(s.left, leaveDetach)
}

// doubt has it be in doubt whether it was registered again, until it is renewed.
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
