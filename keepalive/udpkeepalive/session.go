package udpkeepalive

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"unique"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// Path is a pair of addresses: those of a peer, and of this machine.
type Path struct {
	Peer netip.AddrPort

	// Local is the address of this machine that the peer sends to, and hears from. It is zero if the
	// socket has one address only, if the system does not tell, and for a multicast of IPv6: then
	// the system chooses the address of an answer. A link-local address has the index of its
	// interface as its zone.
	Local netip.Addr
}

// key is a Path in 40 bytes, since a machine has few addresses. IPv4 is as such, also if it is mapped into IPv6.
// The zone of an IPv6 address stays: the same address on another link is another peer.
type key struct {
	peer  netip.AddrPort
	local unique.Handle[netip.Addr] // zero for a zero Addr
}

func (p Path) key() key {
	k := key{peer: netip.AddrPortFrom(p.Peer.Addr().Unmap(), p.Peer.Port())}
	if p.Local.IsValid() {
		k.local = unique.Make(p.Local.Unmap())
	}
	return k
}

func (k key) path() Path {
	p := Path{Peer: k.peer}
	if k.local != (unique.Handle[netip.Addr]{}) {
		p.Local = k.local.Value()
	}
	return p
}

// Session is what a Keeper guards in place of a connection: the datagrams of one path, from the
// first one to the end, and after a move those of another one. A peer that sends to two addresses of this machine has
// two. The functions of the keepalive.Config get a *Session[V] as their conn, and [keepalive.Of] and [keepalive.Touch]
// take one. After its end, a datagram of the same path begins another Session.
//
// Any goroutine may call its methods.
type Session[V any] struct {
	// Value is the program's own, at first zero. The Sessions don't use it. If several goroutines
	// do, the program has to guard it.
	Value V

	at     atomic.Pointer[place[V]]
	first  place[V]   // the one that most sessions stay at
	moving sync.Mutex // one move at a time
	ended  atomic.Bool
	guard  keepalive.Guard
}

// place is where the datagrams of a session come from.
type place[V any] struct {
	sessions *Sessions[V]
	key      key
}

// Peer returns the address of the peer, with IPv4 as such and not mapped into IPv6.
func (s *Session[V]) Peer() netip.AddrPort { return s.at.Load().key.peer }

// Path returns the addresses of the session, with IPv4 as such.
func (s *Session[V]) Path() Path { return s.at.Load().key.path() }

// Write sends a datagram to the peer, from the address that the peer sends to. It returns [net.ErrClosed] after
// the end of the session, even if the peer has another one by now.
func (s *Session[V]) Write(datagram []byte) (int, error) {
	if s.ended.Load() {
		return 0, net.ErrClosed
	}
	at := s.at.Load()
	n, err := at.sessions.socket.WriteTo(datagram, at.key.path())
	if err == nil {
		s.guard.Binding().Wrote()
	}
	return n, err
}

// Close ends the session with keepalive.ReasonLocal, without a farewell, and calls OnClose. With
// another reason, or with a farewell, use keepalive.Of(s).Close. Closing again does nothing. It
// always returns nil.
func (s *Session[V]) Close() error {
	s.end(false)
	return nil
}

// Restart ends the session with keepalive.ReasonPeer, without a farewell, and begins another one of the same path, as if
// the datagram just read were its first: the peer has begun anew, such as a device after a power cut, and knows nothing
// of the session before. OnClose is called for that one on this goroutine. If it has ended already, Restart returns the
// session of the path, and begins one if there is none.
//
// Whoever can send from the address of a peer can make the program call Restart: ask for a proof first, such as the
// handshake of the protocol.
//
// The errors are those of [Sessions.Heard]. Then there is no session any more.
func (s *Session[V]) Restart() (*Session[V], error) {
	s.end(true)
	at := s.at.Load()
	return at.sessions.heard(at.key)
}

// end ends the session by the program, or by the peer.
func (s *Session[V]) end(byPeer bool) {
	s.forget()
	if b := s.guard.Binding(); b.Release() {
		b.Closed(byPeer)
	}
}

// forget takes the session out of the map. A move that does not see the end has stored its place before.
func (s *Session[V]) forget() {
	s.ended.Store(true)
	s.leave(s.at.Load())
}

func (s *Session[V]) leave(at *place[V]) {
	at.sessions.mu.Lock()
	defer at.sessions.mu.Unlock()
	if at.sessions.of.Get(at.key) == s {
		at.sessions.of.Delete(at.key)
	}
}

// SafeContext is the way of [keepalive.Of] to the guard.
func (s *Session[V]) SafeContext() any { return &s.guard }

// udp is the adapter.Adapter of all sessions.
type udp[V any] struct{}

func sessionOf[V any](b adapter.Binding) *Session[V] { return b.Conn().(*Session[V]) }

func (udp[V]) Due(b adapter.Binding) {
	session := sessionOf[V](b)
	if s := session.at.Load().sessions; s.queue.add(&session.guard) {
		s.socket.Wake()
	}
}

// Do runs f here and now. A Peer is known everywhere. A decision that goes on, after a
// runtime.Goexit in a function of the program, is behind the datagrams already.
func (udp[V]) Do(_ context.Context, b adapter.Binding, f func()) error {
	if sessionOf[V](b).ended.Load() {
		return net.ErrClosed
	}
	f()
	return nil
}

func (udp[V]) Control(adapter.Binding, func(fd uintptr)) error { return errors.ErrUnsupported }

func (udp[V]) Peer(b adapter.Binding) net.Addr {
	return net.UDPAddrFromAddrPort(sessionOf[V](b).Peer())
}

// End forgets the session, whatever the mode: a datagram is all that UDP has for a farewell.
func (udp[V]) End(b adapter.Binding, e adapter.Ending) {
	session := sessionOf[V](b)
	session.forget()
	if at := session.at.Load(); len(e.Farewell) > 0 {
		_, _ = at.sessions.socket.WriteTo(e.Farewell, at.key.path()) // UDP may lose it anyway
	}
	b.Closed(false)
}
