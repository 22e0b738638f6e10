package udpkeepalive

import (
	"errors"
	"net"
	"net/netip"
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
// without a lock. They must not call Read. OnClose is also called by Close and Session.Close, on their
// goroutine.
type Conn[V any] struct {
	// Accept is asked about the datagram of a peer without a session. If it returns false, there is no
	// session, and Read reads the next datagram. A server can answer with a cookie, and accept a
	// peer that returns it: a spoofed address then costs no memory. The datagram is
	// valid during the call only. Nil accepts all. Set it before the first Read.
	Accept func(datagram []byte, peer netip.AddrPort) bool

	sessions *Sessions[V]
	socket   *loop
	turn     sync.Mutex // one Read at a time: from a datagram to its Heard
	read     int        // datagrams since the last Decide
}

// Wrap returns a Conn. From now on the reads of the socket, and its read deadline, belong to the Conn.
// The program may still write to the socket. k is the caller's to close, after the Conn.
func Wrap[V any](socket *net.UDPConn, k *keepalive.Keeper) *Conn[V] {
	if socket == nil || k == nil {
		panic("udpkeepalive: Wrap needs a socket and a Keeper")
	}
	l := newLoop(socket)
	return &Conn[V]{sessions: New[V](l, k), socket: l}
}

// Read decides about due sessions, reads a datagram, and returns its session. So a program that does not
// read closes nobody. A datagram longer than buf loses its end. Read drops the datagrams
// of refused sessions. It returns the errors of the socket as they are, and [net.ErrClosed] after
// Close.
//
// Several goroutines may call Read. Then a session may be decided about while another goroutine
// handles its datagram: with keepalive.ActivityManual, touch it before anything else.
func (c *Conn[V]) Read(buf []byte) (n int, session *Session[V], err error) {
	c.turn.Lock()
	defer c.turn.Unlock()
	for {
		c.decide()
		var peer netip.AddrPort
		n, peer, err = c.socket.read(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case err != nil:
			return 0, nil, err
		}
		c.read++
		if c.Accept != nil && c.sessions.Find(peer) == nil && !c.Accept(buf[:n], peer) {
			continue
		}
		session, err = c.sessions.Heard(peer)
		if err == nil {
			return n, session, nil
		}
	}
}

// Find returns the session of a peer, or nil. It is no sign of life. Any goroutine may call it.
func (c *Conn[V]) Find(peer netip.AddrPort) *Session[V] { return c.sessions.Find(peer) }

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
	raw    syscall.RawConn
	unread func(fd uintptr) int // udpsocket.Unread
	woken  atomic.Bool

	// For the read loop only.
	limited bool      // the socket may have a deadline
	until   time.Time // the deadline set last
	empty   bool      // the last read has found nothing for all its patience
}

func newLoop(socket *net.UDPConn) *loop {
	raw, err := socket.SyscallConn()
	if err != nil { // only of a nil socket
		panic(err)
	}
	return &loop{UDPConn: socket, raw: raw, unread: udpsocket.Unread}
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
		l.until = time.Now().Add(patience)
		_ = l.SetReadDeadline(l.until)
		l.limited = true
	case l.limited || l.woken.Load():
		_ = l.SetReadDeadline(time.Time{})
		l.limited = false
	}
}

// read reads a datagram. Without one, it notes whether it has waited: a read that begins after the
// deadline does not look into the socket, and Wake ends a read at any time.
func (l *loop) read(buf []byte) (n int, peer netip.AddrPort, err error) {
	waits := l.limited && time.Now().Before(l.until)
	n, peer, err = l.ReadFromUDPAddrPort(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.limited, l.empty = true, waits && !l.woken.Load() && !time.Now().Before(l.until)
	}
	return n, peer, err
}

// Unread asks the socket. On systems without an answer, such as Windows, an idle read is the proof of
// an empty socket.
func (l *loop) Unread() int {
	n := -1
	_ = l.raw.Control(func(fd uintptr) { n = l.unread(fd) })
	if n < 0 {
		n = plenty
		if l.empty {
			n = 0
		}
	}
	l.empty = false
	return n
}

func (l *loop) Lost() (n uint32) {
	_ = l.raw.Control(func(fd uintptr) { n = udpsocket.Lost(fd) })
	return n
}

// plenty is more than the datagrams that wait in any socket.
const plenty = 1 << 20

func (l *loop) WriteTo(datagram []byte, peer netip.AddrPort) (int, error) {
	return l.WriteToUDPAddrPort(datagram, peer)
}
