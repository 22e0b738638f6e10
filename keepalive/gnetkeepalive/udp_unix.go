//go:build unix

package gnetkeepalive

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/internal/udpsocket"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/udpkeepalive"
)

// AcceptingHandler is an event handler for WrapUDP with an answer for peers without a session.
// If OnStranger returns false, there is no session for the datagram, and no OnTraffic. A server can
// answer with a cookie, and accept a peer that returns it: a spoofed address then costs no memory.
type AcceptingHandler interface {
	OnStranger(c gnet.Conn) (accept bool)
}

// MovingHandler is an event handler for WrapUDP whose peers have an identity of the program's, such as the connection id of
// DTLS. OnMove is asked first about the datagram of an address without a session. It returns the session of a peer that
// has moved here, also one of another event loop, and nil for a stranger: see udpkeepalive.Conn.Owner.
type MovingHandler[V any] interface {
	OnMove(c gnet.Conn) *udpkeepalive.Session[V]
}

// WrapUDP is Wrap for UDP: k guards the sessions of the engine's UDP sockets, one for each socket and address of
// a peer, see package udpkeepalive. The SafeContext of a datagram's gnet.Conn is its session, a
// *udpkeepalive.Session[V]. A gnet.Conn of UDP is good for its OnTraffic only, and the session until
// its end. OnTraffic ends the session with gnet.Close. Datagrams of refused sessions are dropped.
//
// gnet does not know which address of this machine a datagram was sent to. So on a wildcard address, such as
// udp://:9000, the system chooses the address of an answer, most often that of the interface with the route to the
// peer, and a peer that asks two addresses has one session. WrapUDP says so once in the log of k. A server with
// several addresses listens on each of them, see gnet.Rotate.
//
// gnet opens the sockets of further loops after OnBoot, and a datagram before that can begin a session on the wrong
// loop. With gnet.WithTicker(true) the first OnTick comes after all of them: say only then that the server listens.
//
// Everything but a server's UDP passes through. A handler for TCP, too, is wrapped by both functions.
// The returned handler is for one engine at a time. OnShutdown ends all sessions. k is the caller's to
// close, after the engine has stopped. gnet on Windows has no socket for each event loop, so there
// WrapUDP does not exist.
func WrapUDP[V any](inner gnet.EventHandler, k *keepalive.Keeper) gnet.EventHandler {
	if inner == nil || k.Binder() == nil {
		panic("gnetkeepalive: WrapUDP needs a handler and a Keeper from keepalive.New")
	}
	return &datagrams[V]{EventHandler: inner, keeper: k, of: make(map[int]*udpSocket[V])}
}

var errUntold = errors.New("gnet does not tell which address a datagram was sent to")

type datagrams[V any] struct {
	gnet.EventHandler
	keeper *keepalive.Keeper

	wildcard sync.Once // said that gnet does not know the asked address

	mu   sync.Mutex
	of   map[int]*udpSocket[V] // by their descriptors; each belongs to one event loop
	down bool                  // the engine is going down: nobody would end a new session
}

func (d *datagrams[V]) OnBoot(eng gnet.Engine) gnet.Action {
	d.mu.Lock()
	d.down = false
	d.mu.Unlock()
	return d.EventHandler.OnBoot(eng)
}

// connected is in the SafeContext of a gnet.Client's UDP: there is a connection.
type connected struct{}

func (d *datagrams[V]) OnOpen(c gnet.Conn) (out []byte, action gnet.Action) {
	if isUDP(c) {
		c.SetSafeContext(connected{})
	}
	return d.EventHandler.OnOpen(c)
}

func isUDP(c gnet.Conn) bool {
	_, ok := c.LocalAddr().(*net.UDPAddr)
	return ok
}

func (d *datagrams[V]) OnTraffic(c gnet.Conn) gnet.Action {
	if _, ok := c.SafeContext().(connected); ok || !isUDP(c) {
		return d.EventHandler.OnTraffic(c)
	}
	s := d.socket(c)
	peer, ok := c.RemoteAddr().(*net.UDPAddr)
	if s == nil || !ok {
		return gnet.None
	}
	action := d.hear(c, s.sessions, udpkeepalive.Path{Peer: peer.AddrPort()})
	s.sessions.Decide(1)
	return action
}

// hear passes a datagram to its session.
func (d *datagrams[V]) hear(c gnet.Conn, sessions *udpkeepalive.Sessions[V], path udpkeepalive.Path) gnet.Action {
	if sessions.Find(path) == nil && !d.admit(c, sessions, path) {
		return gnet.None
	}
	session, err := sessions.Heard(path)
	if err != nil {
		return gnet.None
	}
	c.SetSafeContext(session)
	action := d.EventHandler.OnTraffic(c)
	if action == gnet.Close {
		_ = session.Close()
		if again := sessions.Find(path); again != nil { // it was restarted
			_ = again.Close()
		}
	}
	return action
}

// admit asks the program about the datagram of an address without a session.
func (d *datagrams[V]) admit(c gnet.Conn, sessions *udpkeepalive.Sessions[V], path udpkeepalive.Path) bool {
	if inner, ok := d.EventHandler.(MovingHandler[V]); ok {
		if session := inner.OnMove(c); session != nil {
			return sessions.Move(session, path) == nil
		}
	}
	inner, ok := d.EventHandler.(AcceptingHandler)
	return !ok || inner.OnStranger(c)
}

// socket returns the sessions of a datagram's socket, or nil after OnShutdown.
func (d *datagrams[V]) socket(c gnet.Conn) *udpSocket[V] {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.of[c.Fd()]
	if s == nil && !d.down {
		s = &udpSocket[V]{conn: c}
		s.sessions = udpkeepalive.New[V](s, d.keeper)
		d.of[c.Fd()] = s
		if udpsocket.IsWildcard(c.LocalAddr()) {
			d.wildcard.Do(func() { udpsocket.WarnWildcard(d.keeper.Binder().Logger(), c.LocalAddr(), errUntold) })
		}
	}
	return s
}

func (d *datagrams[V]) OnShutdown(eng gnet.Engine) {
	d.EventHandler.OnShutdown(eng)
	d.mu.Lock()
	all := d.of
	d.of, d.down = make(map[int]*udpSocket[V]), true
	d.mu.Unlock()
	for _, s := range all {
		s.close()
	}
}

// udpSocket is the udpkeepalive.Socket of one event loop's socket. conn is of its first datagram: the
// descriptor, the event loop and SendTo outlive the datagram.
type udpSocket[V any] struct {
	conn     gnet.Conn
	sessions *udpkeepalive.Sessions[V]

	mu     sync.RWMutex
	closed bool // gnet is about to close the descriptor
}

// Wake has the event loop decide. If datagrams wait, their OnTraffic does. It might not come, for a
// datagram with a wrong checksum: so the loop looks again.
func (s *udpSocket[V]) Wake() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return
	}
	_ = s.conn.EventLoop().Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
		if s.sessions.Decide(0) {
			time.AfterFunc(lostAfter, s.Wake)
		}
		return nil
	}))
}

func (s *udpSocket[V]) Unread() int  { return udpsocket.Unread(uintptr(s.conn.Fd())) }
func (s *udpSocket[V]) Lost() uint32 { return udpsocket.Lost(uintptr(s.conn.Fd())) }

func (s *udpSocket[V]) WriteTo(datagram []byte, path udpkeepalive.Path) (int, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return 0, net.ErrClosed
	}
	return s.conn.SendTo(datagram, net.UDPAddrFromAddrPort(path.Peer))
}

func (s *udpSocket[V]) close() {
	_ = s.sessions.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}
