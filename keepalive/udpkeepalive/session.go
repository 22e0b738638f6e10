package udpkeepalive

import (
	"context"
	"errors"
	"net"
	"net/netip"
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
// first one to the end. A peer that sends to two addresses of this machine has two. The functions of the
// keepalive.Config get a *Session[V] as their conn, and [keepalive.Of] and [keepalive.Touch] take one. After
// its end, a datagram of the same path begins another Session.
//
// Any goroutine may call its methods.
type Session[V any] struct {
	// Value is the program's own, at first zero. The Sessions don't use it. If several goroutines
	// do, the program has to guard it.
	Value V

	sessions *Sessions[V]
	key      key
	ended    atomic.Bool
	guard    keepalive.Guard
}

// Peer returns the address of the peer, with IPv4 as such and not mapped into IPv6.
func (s *Session[V]) Peer() netip.AddrPort { return s.key.peer }

// Path returns the addresses of the session, with IPv4 as such.
func (s *Session[V]) Path() Path { return s.key.path() }

// Write sends a datagram to the peer, from the address that the peer sends to. It returns [net.ErrClosed] after
// the end of the session, even if the peer has another one by now.
func (s *Session[V]) Write(datagram []byte) (int, error) {
	if s.ended.Load() {
		return 0, net.ErrClosed
	}
	n, err := s.sessions.socket.WriteTo(datagram, s.key.path())
	if err == nil {
		s.guard.Binding().Wrote()
	}
	return n, err
}

// Close ends the session with keepalive.ReasonLocal, without a farewell, and calls OnClose. With
// another reason, or with a farewell, use keepalive.Of(s).Close. Closing again does nothing. It
// always returns nil.
func (s *Session[V]) Close() error {
	s.sessions.forget(s)
	s.release()
	return nil
}

func (s *Session[V]) release() {
	if b := s.guard.Binding(); b.Release() {
		b.Closed(false)
	}
}

// SafeContext is the way of [keepalive.Of] to the guard.
func (s *Session[V]) SafeContext() any { return &s.guard }

// place is the adapter.Adapter of all sessions of a socket.
type place[V any] Sessions[V]

func sessionOf[V any](b adapter.Binding) *Session[V] { return b.Conn().(*Session[V]) }

func (p *place[V]) Due(b adapter.Binding) {
	if p.queue.add(&sessionOf[V](b).guard) {
		p.socket.Wake()
	}
}

// Do runs f here and now. A Peer is known everywhere. A decision that goes on, after a
// runtime.Goexit in a function of the program, is behind the datagrams already.
func (p *place[V]) Do(_ context.Context, b adapter.Binding, f func()) error {
	if sessionOf[V](b).ended.Load() {
		return net.ErrClosed
	}
	f()
	return nil
}

func (p *place[V]) Control(adapter.Binding, func(fd uintptr)) error { return errors.ErrUnsupported }

func (p *place[V]) Peer(b adapter.Binding) net.Addr {
	return net.UDPAddrFromAddrPort(sessionOf[V](b).key.peer)
}

// End forgets the session, whatever the mode: a datagram is all that UDP has for a farewell.
func (p *place[V]) End(b adapter.Binding, e adapter.Ending) {
	session := sessionOf[V](b)
	(*Sessions[V])(p).forget(session)
	if len(e.Farewell) > 0 {
		_, _ = p.socket.WriteTo(e.Farewell, session.key.path()) // UDP may lose it anyway
	}
	b.Closed(false)
}
