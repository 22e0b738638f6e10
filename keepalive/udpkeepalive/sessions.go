package udpkeepalive

import (
	"errors"
	"fmt"
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

	// begins is held while a session begins, or moves here. It guards spare.
	begins sync.Mutex
	spare  *Session[V] // never seen by anybody, or nil

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
func (s *Sessions[V]) Heard(path Path) (*Session[V], error) { return s.heard(path.key()) }

func (s *Sessions[V]) heard(k key) (*Session[V], error) {
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
	session, err := s.admit(k)
	if err != nil && session != nil {
		session.end(false)
		return nil, err
	}
	return session, err
}

// admit is begin without the end of a session that can't stay: the program hears of it without a lock.
func (s *Sessions[V]) admit(k key) (*Session[V], error) {
	s.begins.Lock()
	defer s.begins.Unlock()
	if session := s.find(k); session != nil {
		return session, nil // of another goroutine
	}
	session := s.spare
	if session == nil {
		session = new(Session[V])
	}
	s.spare = nil
	session.first = place[V]{s, k}
	session.at.Store(&session.first)
	err := s.keeper.Bind(&session.guard, session, udp[V]{}, net.UDPAddrFromAddrPort(k.peer))
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
	return session, s.keep(session, k)
}

// keep returns an error after Close, and if another session has the key. The Keeper has shown the session to others
// before, such as Keeper.Guards: one that was closed meanwhile stays out.
func (s *Sessions[V]) keep(session *Session[V], k key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return net.ErrClosed
	case s.of.Get(k) != nil && s.of.Get(k) != session:
		return errTaken
	case !session.ended.Load():
		s.of.Set(k, session)
	}
	return nil
}

var errTaken = errors.New("udpkeepalive: the path has a session")

// Move gives a session another path, which has no session yet: its peer has another address, or sends to another one
// of this machine. The session may be one of other Sessions: from now on the read loop of this socket decides about it.
// Its Value, its Guard and its age stay; Room.MaxPerKey counts it for the new address. A move is no sign of life, but
// the datagram is, by the Heard that follows. Datagrams from the path before are those of a stranger.
//
// Whoever can make the program call Move takes the session over, and gets its answers. So call it for a datagram that
// only the peer can have sent, and that is no replay of an older one. If answers are much longer than
// datagrams, ask the new address for a cookie first: the peer itself may send from the address of a third party.
//
// Move returns [net.ErrClosed] after the end of the session or of s, keepalive.ErrArgument for a nil session and for a path
// without a peer, keepalive.ReasonFull, wrapped, if there are too many of the new address, and an error if the path has
// another session. Then nothing has changed, but a session that was about to move when s was closed has ended, too.
func (s *Sessions[V]) Move(session *Session[V], path Path) error {
	if session == nil || session.at.Load() == nil || !path.Peer.IsValid() {
		return fmt.Errorf("%w: Move of session %p to peer %v, must be a session of a Read, and an address", keepalive.ErrArgument, session, path.Peer)
	}
	stays, err := s.move(session, path)
	if !stays {
		session.end(false)
	}
	return err
}

// move is Move without the end of a session that has no place any more.
func (s *Sessions[V]) move(session *Session[V], path Path) (stays bool, err error) {
	s.begins.Lock()
	defer s.begins.Unlock()
	session.moving.Lock()
	defer session.moving.Unlock()
	from, to := session.at.Load(), &place[V]{s, path.key()}
	switch other := s.find(to.key); {
	case session.ended.Load():
		return true, net.ErrClosed
	case *from == *to:
		return true, nil
	case other != nil:
		return true, errTaken
	}
	err = session.guard.Binding().Move(net.UDPAddrFromAddrPort(to.key.peer))
	if err != nil && !errors.Is(err, keepalive.ErrNotGuarded) { // which is what all sessions are after Keeper.Close
		return true, err
	}
	session.leave(from)
	session.at.Store(to)
	if err := s.keep(session, to.key); err != nil {
		return false, err
	}
	if session.ended.Load() {
		return true, net.ErrClosed
	}
	return true, nil
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
