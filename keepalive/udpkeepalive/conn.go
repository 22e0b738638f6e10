package udpkeepalive

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/udpsocket"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// patience is how long a read waits for a datagram while sessions are due.
const patience = 10 * time.Millisecond

// Conn is a socket of package net with its sessions. The goroutine in Read decides about them. It calls
// Accept and the functions of the keepalive.Config, so with one read loop they may use the loop's data
// without a lock. They must not call Read. OnClose is also called by Close, Session.Close and Session.Restart, on their
// goroutine.
type Conn[V any] struct {
	// Owner is asked first about the datagram of a path without a session. It returns the session of a peer that has
	// moved here, by an identity of the program's, such as the connection id of DTLS or QUIC: the session then
	// moves to the path, and Read returns it with the datagram. Read [Sessions.Move] about who may move a session. If the
	// move fails, the datagram is dropped. With nil the peer is a stranger. The datagram is valid during the call only.
	// Nil is for protocols without such an identity. Set it before the first Read.
	Owner func(datagram []byte, path Path) *Session[V]

	// Accept is asked about the datagram of a peer without a session. If it returns false, there is no
	// session, and Read reads the next datagram. A server can answer with a cookie, and accept a
	// peer that returns it: a spoofed address then costs no memory. [Conn.WriteTo] sends it. The datagram is
	// valid during the call only. Nil accepts all. Set it before the first Read.
	Accept func(datagram []byte, path Path) bool

	sessions *Sessions[V]
	socket   *loop
	turn     sync.Mutex // one Read at a time: from a datagram to its Heard
	read     int        // datagrams since the last Decide
}

// Wrap returns a Conn. From now on the reads of the socket, and its read deadline, belong to the Conn.
// The program may still write to the socket. k is the caller's to close, after the Conn.
//
// On Linux, a socket on a wildcard address answers from the address that a peer has asked, also for IPv4 on
// a socket of IPv6. Other systems choose the address, most often that of the interface with the route to the peer,
// and Wrap says so in the log of k. There, a server with several addresses has a socket for each.
func Wrap[V any](socket *net.UDPConn, k *keepalive.Keeper) *Conn[V] {
	if socket == nil || k.Binder() == nil {
		panic("udpkeepalive: Wrap needs a socket and a Keeper from keepalive.New")
	}
	l := newLoop(socket)
	if err := l.tellAsked(); err != nil {
		udpsocket.WarnWildcard(k.Binder().Logger(), socket.LocalAddr(), err)
	}
	return &Conn[V]{sessions: New[V](l, k), socket: l}
}

// Read decides about due sessions, reads a datagram, and returns its session. So a program that does not
// read closes nobody. A datagram longer than buf loses its end, and Windows drops it. Read drops the
// datagrams of refused sessions. It returns the errors of the socket as they are, and [net.ErrClosed] after
// Close.
//
// Several goroutines may call Read. Then the decision on a session may come while another goroutine
// handles its datagram: with keepalive.ActivityManual, touch it before anything else.
func (c *Conn[V]) Read(buf []byte) (n int, session *Session[V], err error) {
	c.turn.Lock()
	defer c.turn.Unlock()
	for {
		c.decide()
		var path Path
		n, path, err = c.socket.read(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case udpsocket.IsTooLong(err):
			c.read++
			continue
		case err != nil:
			return 0, nil, err
		}
		c.read++
		if !c.admit(buf[:n], path) {
			continue
		}
		session, err = c.sessions.Heard(path)
		if err == nil {
			return n, session, nil
		}
	}
}

// admit asks the program about the datagram of a path without a session.
func (c *Conn[V]) admit(datagram []byte, path Path) bool {
	if c.Owner == nil && c.Accept == nil || c.sessions.Find(path) != nil {
		return true
	}
	if c.Owner != nil {
		if session := c.Owner(datagram, path); session != nil {
			return c.sessions.Move(session, path) == nil
		}
	}
	return c.Accept == nil || c.Accept(datagram, path)
}

// Find returns the session of a path, or nil. It is no sign of life. Any goroutine may call it.
func (c *Conn[V]) Find(path Path) *Session[V] { return c.sessions.Find(path) }

// WriteTo sends a datagram to the peer of a path, with a session or without, from the address that the peer
// sends to. Any goroutine may call it. It is no sign of life.
func (c *Conn[V]) WriteTo(datagram []byte, path Path) (int, error) {
	return c.socket.WriteTo(datagram, path)
}

// decide decides, and sets the deadline of the next read, until nobody has called Wake meanwhile.
func (c *Conn[V]) decide() {
	for woken := true; woken; woken = c.socket.woken.Load() {
		c.socket.woken.Store(false)
		waits := c.sessions.Decide(c.read)
		c.read = 0
		c.socket.limit(waits)
	}
}

// Close closes the socket, and ends all sessions with keepalive.ReasonLocal and without a farewell; see
// Keeper.Drain. It returns the error of the socket's Close.
func (c *Conn[V]) Close() error {
	err := c.socket.Close()
	_ = c.sessions.Close()
	return err
}

// LocalAddr returns the address of the socket.
func (c *Conn[V]) LocalAddr() net.Addr { return c.socket.LocalAddr() }

// loop is the Socket of a Conn. A past deadline wakes its Read.
type loop struct {
	*net.UDPConn
	raw   syscall.RawConn
	woken atomic.Bool
	asked bool // the socket tells the address that a peer has asked

	// For the read loop only.
	control [256]byte // also for messages that the program has asked for
	limited bool      // the socket may have a deadline
}

func newLoop(socket *net.UDPConn) *loop {
	raw, err := socket.SyscallConn()
	if err != nil { // only of a nil socket
		panic(err)
	}
	return &loop{UDPConn: socket, raw: raw}
}

// tellAsked returns an error if the socket has several addresses, and does not tell which of them a peer has
// asked.
func (l *loop) tellAsked() (err error) {
	addr := l.LocalAddr()
	if !udpsocket.IsWildcard(addr) {
		return nil
	}
	ipv6 := addr.(*net.UDPAddr).IP.To4() == nil
	lost := l.raw.Control(func(fd uintptr) { err = udpsocket.TellAsked(fd, ipv6) })
	err = errors.Join(err, lost)
	l.asked = err == nil
	return err
}

// past is a deadline that ends a read at once.
var past = time.Unix(1, 0)

func (l *loop) Wake() {
	l.woken.Store(true)
	_ = l.SetReadDeadline(past)
}

// limit sets the deadline of the next read: soon, if sessions wait for it, or never. If Wake comes
// after it, the read ends at once.
func (l *loop) limit(waits bool) {
	switch {
	case waits:
		_ = l.SetReadDeadline(time.Now().Add(patience))
		l.limited = true
	case l.limited || l.woken.Load():
		_ = l.SetReadDeadline(time.Time{})
		l.limited = false
	}
}

// read reads a datagram.
func (l *loop) read(buf []byte) (n int, path Path, err error) {
	if l.asked {
		var told int
		n, told, _, path.Peer, err = l.ReadMsgUDPAddrPort(buf, l.control[:])
		path.Local = udpsocket.Asked(l.control[:told])
	} else {
		n, path.Peer, err = l.ReadFromUDPAddrPort(buf)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.limited = true // also by Wake
	}
	return n, path, err
}

func (l *loop) Unread() int {
	n := udpsocket.Plenty
	_ = l.raw.Control(func(fd uintptr) { n = udpsocket.Unread(fd) })
	return n
}

func (l *loop) Lost() (n uint32) {
	_ = l.raw.Control(func(fd uintptr) { n = udpsocket.Lost(fd) })
	return n
}

func (l *loop) WriteTo(datagram []byte, path Path) (int, error) {
	if !path.Local.IsValid() {
		return l.WriteToUDPAddrPort(datagram, path.Peer)
	}
	var from udpsocket.From
	n, _, err := l.WriteMsgUDPAddrPort(datagram, from.Addr(path.Local), path.Peer)
	return n, err
}
