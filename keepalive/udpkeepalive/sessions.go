package udpkeepalive

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/shrink"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Socket is the Sessions' way to a socket and its read loop. [Conn] is one for package net.
type Socket interface {
	// Wake has Sessions.Decide called soon, by the read loop. Any goroutine may call Wake. It
	// must not block.
	Wake()

	// Unread returns an upper bound of how many datagrams wait in the socket, and 0 only if none
	// does. Decide calls it.
	Unread() int

	// Lost returns how many datagrams the socket has dropped so far, since they came faster than
	// they were read. It may wrap around, and is always 0 if nobody knows. Decide calls it.
	Lost() uint32

	// WriteTo sends a datagram to path.Peer, and from path.Local if that is not zero. Any goroutine may
	// call it.
	WriteTo(datagram []byte, path Path) (int, error)
}

// Sessions are the sessions of one socket, by their paths. V is the type of
// Session.Value. [Wrap] makes them for a socket of package net, and [New] for any other read loop.
//
// The read loop calls Heard for each datagram, and Decide between two datagrams. One goroutine at a
// time may call these two. Any goroutine may call the other methods.
type Sessions[V any] struct {
	keeper *keepalive.Keeper
	socket Socket
	queue  queue
	spare  *Session[V] // never seen by anybody, or nil; for the read loop only

	mu     sync.Mutex
	of     shrink.Map[key, *Session[V]]
	closed bool
}

// New returns the sessions of a socket. k is the caller's to close, after the sessions.
func New[V any](socket Socket, k *keepalive.Keeper) *Sessions[V] {
	if socket == nil || k.Binder() == nil {
		panic("udpkeepalive: New needs a Socket and a Keeper from keepalive.New")
	}
	s := &Sessions[V]{keeper: k, socket: socket}
	s.queue.losses = losses{begun: time.Now(), known: socket.Lost()}
	return s
}

// Find returns the session of a path, or nil. It is no sign of life.
func (s *Sessions[V]) Find(path Path) *Session[V] { return s.find(path.key()) }

func (s *Sessions[V]) find(k key) *Session[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of.Get(k)
}

// Heard returns the session of a path after a datagram of its peer, and begins one if there is none.
// The datagram is life, except with keepalive.ActivityManual.
//
// It returns keepalive.ReasonFull if there are too many sessions, in all or of this address, and
// keepalive.ReasonDrain while the Keeper is draining. Then the program drops the datagram. It returns
// [net.ErrClosed] after Close. After Keeper.Close there are no new sessions: a peer without a
// session gets an unguarded one for each datagram.
func (s *Sessions[V]) Heard(path Path) (*Session[V], error) {
	k := path.key()
	session := s.find(k)
	if session == nil {
		var err error
		if session, err = s.begin(k); err != nil {
			return nil, err
		}
	}
	session.guard.Binding().Read()
	return session, nil
}

// begin makes a session. A flood of refused ones allocates nothing for each.
func (s *Sessions[V]) begin(k key) (*Session[V], error) {
	if reason := s.keeper.Binder().Refuse(); reason != nil {
		return nil, reason
	}
	session := s.spare
	if session == nil {
		session = new(Session[V])
	}
	s.spare = nil
	session.sessions, session.key = s, k
	err := s.keeper.Bind(&session.guard, session, (*place[V])(s), net.UDPAddrFromAddrPort(k.peer))
	if reason, refused := errors.AsType[keepalive.Reason](err); refused {
		if reason == keepalive.ReasonFull { // before anybody could see it
			session.guard = keepalive.Guard{}
			s.spare = session
		}
		return nil, reason
	}
	if err != nil { // the Keeper has been closed
		return session, nil
	}
	if !s.keep(session) {
		session.release()
		return nil, net.ErrClosed
	}
	return session, nil
}

// keep reports false after Close. The Keeper has shown the session to others before, such as
// Keeper.Guards: one that was closed meanwhile stays out.
func (s *Sessions[V]) keep(session *Session[V]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && !session.ended.Load() {
		s.of.Set(session.key, session)
	}
	return !s.closed
}

// forget takes a session out of the map, if it is there.
func (s *Sessions[V]) forget(session *Session[V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session.ended.Store(true)
	if s.of.Get(session.key) == session {
		s.of.Delete(session.key)
	}
}

// Decide decides about sessions that are due, behind the datagrams in the socket. read is how many
// datagrams were read, and handled, since the call before. It may call functions of the
// keepalive.Config. Without due sessions it takes a nanosecond.
//
// It reports whether sessions are still due. They wait for datagrams in the socket: the read loop
// reads one, and calls Decide again.
func (s *Sessions[V]) Decide(read int) (waits bool) { return s.queue.decide(read, s.socket) }

// Close ends all sessions with keepalive.ReasonLocal, without a farewell. OnClose is called on this
// goroutine. The socket stays open. Closing again does nothing. It always returns nil.
func (s *Sessions[V]) Close() error {
	s.mu.Lock()
	s.closed = true
	var left []*Session[V]
	for _, session := range s.of.All() {
		left = append(left, session)
	}
	s.mu.Unlock()
	for _, session := range left {
		_ = session.Close()
	}
	return nil
}
