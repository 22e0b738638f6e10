package keepalive

import (
	"cmp"
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

// bytes returns how many bytes have ever arrived, where the socket tells.
func (e evidence) bytes() uint64 { return e.taken + uint64(e.unread) }

// Ask asks a socket, after the deadline of its connection has passed, whether
// the peer was heard after all: whether bytes wait to be read, and on Linux with
// TCP when bytes last arrived, and were sent where that counts. It costs two
// system calls. The descriptor must be open.
func (k *Keeper) Ask(g *Guard, fd uintptr) Heard {
	return k.heard(g, ask(fd), false)
}

// heard judges the evidence. moving says that bytes are passing which Read and
// Write don't see. With ActivityKernel:
//
//	bytes last arrived   unread                   the connection may stay
//	------------------   ----------------------   --------------------------------
//	within its time      any                      until they are that old
//	before               none                     no longer, but while a transfer
//	                                              moves bytes its time from now
//	before               none since the last      its time from now: this program
//	                     look, some until then    was slow
//	before               some, less what was      its time from now: it is slow, or
//	                     taken since              a transfer has a slow sink
//	before               some, and nobody takes   two ticks, maxRounds times: it
//	                     them                     hangs, or the peer can't send
//
// Its time is the timeout, or what comes before that: the time for a first message,
// or until a probe. Where that is over and it waits for something else, what came
// since it was last heard is life.
func (k *Keeper) heard(g *Guard, e evidence, moving bool) Heard {
	p, d := k.policy.Load(), g.details.Load()
	if k.activity == ActivityKernel && e.bytes() > 0 {
		g.notFirst() // nothing else says so
	}
	patience, _ := k.patience(p, g, d)
	waits, _, _ := d.at(g.member.Stamp())
	within, news := patience, true
	switch {
	case d.isEvicted(g.member.Stamp()):
		within = cmp.Or(p.EvictMinIdle, 10*k.pool.Tick())
	case waits != listening:
		within = g.member.Idle()
		if k.activity == ActivityReadWrite {
			within -= 2 * k.pool.Tick() // what was sent is not counted
		} else {
			news = e.bytes() != d.bytesSeen() // exact, where Idle is not on a busy machine
		}
	case g.isFirst(p.Tick) && e.received >= 0 && e.bytes() == 0:
		within = 0 // the kernel calls the beginning of a connection an arrival
	}
	h := Heard{Read: e.taken, bytes: e.bytes(), received: k.counted(e.received), sent: k.counted(e.sent)}
	since := h.received
	if k.activity == ActivityReadWrite && h.sent >= 0 {
		since = min(since, h.sent)
	}
	if k.activity == ActivityKernel && since >= 0 {
		since = max(since-behind, 0) // nothing else says that it lives
	}
	h.fresh = since >= 0 && since < within && news && k.activity != ActivityManual
	moving = moving && k.activity != ActivityManual
	switch {
	case h.fresh && (k.activity == ActivityKernel || e.unread == 0):
		// With another activity it was read past us: by a transfer, or from the
		// socket itself.
		h.More, h.ago = within-since, since
	case moving && e.unread > 0:
		h.More, h.Unread, h.taken, h.fresh = patience, true, true, false // by somebody who is slower than the peer
	case e.unread > 0:
		// We are slow. The peer's time runs from when it sent them.
		h.More, h.Unread, h.fresh = max(patience-max(h.received, 0), 2*k.pool.Tick()), true, false
	case moving, k.activity == ActivityKernel && waits == unread:
		h.More = patience
	}
	return h
}

// counted is how much of an age counts, or less than 0 where it is not known.
func (k *Keeper) counted(age time.Duration) time.Duration {
	if age < 0 {
		return age
	}
	return k.pool.Counted(age)
}

// heard asks the socket of a connection of net.
func (c *conn) heard() Heard {
	e, err := askConn(c.inner)
	if err != nil {
		return c.told(Heard{received: -1, sent: -1}) // closed, or without a socket
	}
	moved, transfer := e.taken, c.transfers.Load() > 0
	if transfer {
		moved += e.acked
	}
	moving := moved != c.moved && (transfer || !c.guard.Reads() && e.unread > 0)
	h := c.keeper.heard(c.guard, e, moving)
	if !h.fresh { // or the next look may come too soon for anything to have moved
		c.moved = moved
	}
	return c.told(h)
}

// told adds to what the socket of a connection says what Read and Write have noted,
// where they have to.
func (c *conn) told(h Heard) Heard {
	if c.noted == nil {
		return h
	}
	now := time.Since(c.keeper.start)
	h.received = c.keeper.counted(max(0, now-time.Duration(c.noted.read.Load())))
	h.sent = c.keeper.counted(max(0, now-time.Duration(c.noted.wrote.Load())))
	h.bytes = c.noted.bytes.Load()
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
