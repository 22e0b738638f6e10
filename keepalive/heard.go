package keepalive

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// evidence is what a socket says of its connection. A negative duration means
// that it does not tell.
type evidence struct {
	unread   int           // bytes that have arrived and were not read
	received time.Duration // since bytes last arrived
	sent     time.Duration // since bytes were last sent
	taken    uint64        // bytes that have arrived and were read
	acked    uint64        // bytes that the peer has acknowledged
}

var nothing = evidence{received: -1, sent: -1}

// Ask asks a socket, after the deadline of its connection has passed, whether
// the peer was heard after all: whether bytes wait to be read, and on Linux with
// TCP when bytes last arrived, and were sent where that counts. It costs two
// system calls. The descriptor must be open.
func (k *Keeper) Ask(g *Guard, fd uintptr) Heard {
	e := ask(fd)
	h := k.heard(g, e, false)
	h.Read = e.taken
	return h
}

// heard judges the evidence. moving says that bytes are passing which Read and
// Write don't see. With ActivityKernel:
//
//	bytes last arrived   unread                   the connection may stay
//	------------------   ----------------------   --------------------------------
//	within the timeout   any                      until they are a timeout old
//	before               none                     no longer, but while a transfer
//	                                              moves bytes a timeout from now
//	before               none since the last      a timeout from now: this program
//	                     look, some until then    was slow
//	before               some, less what was      a timeout from now: it is slow, or
//	                     taken since              a transfer has a slow sink
//	before               some, and nobody takes   two ticks, maxRounds times: it
//	                     them                     hangs, or the peer can't send
func (k *Keeper) heard(g *Guard, e evidence, moving bool) Heard {
	moving = moving && k.activity != ActivityManual
	timeout := g.member.Timeout()
	if e.received >= 0 {
		e.received = k.pool.Counted(e.received)
	}
	since := e.received
	if k.activity == ActivityReadWrite && e.sent >= 0 {
		since = min(since, k.pool.Counted(e.sent))
	}
	if k.activity == ActivityKernel && since >= 0 {
		since = max(since-behind, 0) // nothing else says that it lives
	}
	fresh := since >= 0 && since < timeout
	switch {
	case fresh && k.activity == ActivityKernel:
		return Heard{More: timeout - since, fresh: true}
	case moving && e.unread > 0:
		return Heard{More: timeout, Unread: true, taken: true} // by somebody who is slower than the peer
	case e.unread > 0:
		// We are slow. The peer's time runs from when it sent them.
		return Heard{More: max(timeout-max(e.received, 0), 2*k.pool.Tick()), Unread: true}
	case k.activity == ActivityManual:
		return Heard{}
	case fresh:
		// Read past us: by a transfer, or from the socket itself.
		return Heard{More: timeout - since, fresh: true}
	case moving, k.activity == ActivityKernel && g.granted.endsOn(g.member.DueTick()):
		return Heard{More: timeout}
	}
	return Heard{}
}

// heard asks the socket of a connection of net.
func (c *conn) heard() Heard {
	e, err := askConn(c.inner)
	if err != nil {
		return Heard{} // closed, or without a socket
	}
	moved, transfer := e.taken, c.transfers.Load() > 0
	if transfer {
		moved += e.acked
	}
	moving := moved != c.moved && (transfer || !c.reads && e.unread > 0)
	h := c.keeper.heard(c.guard, e, moving)
	if !h.fresh { // or the next look may come too soon for anything to have moved
		c.moved = moved
	}
	return h
}

// tells reports whether the socket of a connection knows when bytes last arrived,
// so that it is not necessary to see them all.
func tells(c net.Conn) (yes bool) {
	if !socketsTell {
		return false
	}
	raw, err := socketOf(c)
	return err == nil && raw.Control(func(fd uintptr) { yes = SocketTells(fd) }) == nil && yes
}

// askConn asks the socket of a connection.
func askConn(c net.Conn) (evidence, error) {
	e := nothing
	raw, err := socketOf(c)
	if err == nil {
		err = raw.Control(func(fd uintptr) { e = ask(fd) })
	}
	return e, err
}

// socketOf returns the socket of a connection, or of the one inside it.
func socketOf(c net.Conn) (syscall.RawConn, error) {
	for range maxLayers {
		switch inner := c.(type) {
		case syscall.Conn:
			return inner.SyscallConn()
		case interface{ NetConn() net.Conn }:
			c = inner.NetConn()
		default:
			return nil, errNoSocket
		}
	}
	return nil, errNoSocket
}

var errNoSocket = errors.New("keepalive: no socket")
