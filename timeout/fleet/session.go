package fleet

import (
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
func (s *Session) Conn() io.Closer { return s.conn }

// Epoch is higher than those of all registrations of the session before. It changes only where
// Redis has lost its data and the node has registered the session again.
func (s *Session) Epoch() int64 { return s.claim().token.epoch() }

// Alive reports whether the node has the session, and its lease is not over by the node's own
// clock: whatever the program is about to do in the session's name, nobody else does. It takes
// some nanoseconds.
func (s *Session) Alive() bool {
	return s.Reason() == 0 && s.node.elapsed()-time.Duration(s.good.Load()) < s.node.cfg.Lease
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
	return true
}

// renewed gives it the token of a new registration. Where it is over meanwhile, it returns what
// has to be done with that one.
func (s *Session) renewed(t token) leave {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = t
	if s.over == 0 {
		return leaveAlone
	}
	return s.left
}
