package keepalive

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn returns a connection that behaves like c and is guarded. Its methods are
// those of c, as far as a net.Conn has them, with ReadFrom and WriteTo, by which
// splice and sendfile still happen; CloseRead, CloseWrite and SyscallConn where c
// has them; and NetConn, which returns c.
//
// Deadlines are the user's and never touched. After the Keeper has closed the
// connection because it was idle, Read and Write return [ErrIdleTimeout], and
// Close returns nil and leaves the Keeper the time for a farewell.
//
// With ActivityKernel, Read and Write only add a call, if the socket of c, or of the
// connection inside it that NetConn returns, is one of TCP. If not, Read touches.
//
// A connection that the Keeper guards already is returned as it is, and so is
// any connection after Close. Where there are too many connections, or the Keeper is
// being drained, c is closed, and using what is returned gives [ReasonFull] or
// [ReasonDrain].
func (k *Keeper) Conn(c net.Conn) net.Conn {
	if g := guardOf(c); g != nil && k.pool.Has(&g.member) {
		return c
	}
	guarded, err := k.guarded(c)
	switch {
	case errors.Is(err, ErrFull), errors.Is(err, ErrDraining):
		refused := &conn{inner: c, keeper: k, guard: new(Guard)}
		refused.refuse(ReasonFull)
		if errors.Is(err, ErrDraining) {
			refused.refuse(ReasonDrain)
		}
		return refused
	case err != nil:
		return c
	}
	return guarded
}

// guarded returns a connection that is guarded, with as many methods as inner
// has.
func (k *Keeper) guarded(inner net.Conn) (net.Conn, error) {
	var c interface {
		net.Conn
		Due
		self() *conn
	}
	_, halves := inner.(interface{ CloseWrite() error })
	_, socket := inner.(syscall.Conn)
	switch {
	case halves && socket && k.policy.Load().MinBeat > 0:
		c = new(countedConn)
	case halves && socket:
		c = new(socketHalfConn)
	case halves:
		c = new(halfConn)
	case socket:
		c = new(socketConn)
	default:
		c = new(conn)
	}
	self := c.self()
	self.inner, self.keeper, self.guard = inner, k, new(Guard)
	from := Origin{Remote: identity(inner), SocketTells: tells(inner)}
	if !from.SocketTells {
		self.noted = new(noted)
		self.noted.read.Store(int64(time.Since(k.start)))
		self.noted.wrote.Store(int64(time.Since(k.start)))
	}
	self.unknown.Store(from.Remote == nil)
	if err := k.Guard(self.guard, c, from); err != nil {
		return nil, err
	}
	return c, nil
}

// conn is a guarded connection without a socket that can be asked, such as a
// net.Pipe. The types below have what only some connections have.
type conn struct {
	inner  net.Conn
	keeper *Keeper

	// guard is an object of its own, since a slot of the wheel may keep it for a
	// while after the connection is closed.
	guard *Guard

	noted     *noted        // nil where the socket knows
	unknown   atomic.Bool   // the peer's address is
	broken    atomic.Bool   // the peer has closed it, or it broke
	deciding  atomic.Bool   // a worker is in Due
	ended     atomic.Uint32 // the Reason for which the Keeper has closed it, or 0
	transfers atomic.Int32  // ReadFrom and WriteTo that are running

	// moved is how many bytes had been read when it was last due and nothing had
	// arrived within the timeout, and in a transfer also sent. Only Due uses it.
	moved uint64
}

func (c *conn) self() *conn { return c }

// identity returns the address of a peer, or nil where asking for it may have to wait:
// a connection that speaks the PROXY protocol has to read first.
func identity(c net.Conn) net.Addr {
	for range maxLayers {
		switch inner := c.(type) {
		case *net.TCPConn, *net.UnixConn:
			return inner.RemoteAddr()
		case *tls.Conn:
			c = inner.NetConn()
		default:
			return nil
		}
	}
	return nil
}

// identify is for a connection of which identity knew nothing, after it has been read
// from. It closes one that is too many of its peer.
func (c *conn) identify() error {
	if !c.unknown.CompareAndSwap(true, false) || c.keeper.policy.Load().MaxPerKey == 0 ||
		c.keeper.Identify(c.guard, c.inner.RemoteAddr()) {
		return nil
	}
	if c.keeper.Release(c.guard) {
		c.refuse(ReasonFull)
		c.keeper.bursts.note(c.keeper, func() { c.keeper.bursts.refused.PerKey++ })
		c.keeper.Closed(c.guard, ReasonFull)
	}
	return c.fail("read", ReasonFull)
}

// noted is what Read and Write note where the socket can't tell.
type noted struct {
	read, wrote atomic.Int64  // when the last bytes were, since the start of the Keeper
	bytes       atomic.Uint64 // read
}

// Guarded is how Touch finds the guard.
func (c *conn) Guarded() *Guard { return c.guard }

// Remote is [Located].
func (c *conn) Remote(context.Context, any) net.Addr { return c.remote() }

// remote returns the address of the peer, or nil where asking for it may have to wait.
func (c *conn) remote() net.Addr {
	if c.unknown.Load() {
		return identity(c.inner)
	}
	return c.inner.RemoteAddr()
}

// NetConn returns the connection inside.
func (c *conn) NetConn() net.Conn { return c.inner }

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.inner.Read(p)
	if n > 0 {
		if c.ended.Load() != 0 {
			return 0, c.fail("read", err) // what it still sends is not for the user, see CloseHalf
		}
		if c.unknown.Load() {
			if err := c.identify(); err != nil {
				return 0, err
			}
		}
		if c.guard.Reads() {
			c.guard.Heard()
		}
		if c.noted != nil {
			c.noted.read.Store(int64(time.Since(c.keeper.start)))
			c.noted.bytes.Add(uint64(n))
		}
	}
	if err != nil {
		err = c.fail("read", err)
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	if c.ended.Load() != 0 {
		return 0, c.fail("write", net.ErrClosed) // it would come after the farewell
	}
	n, err := c.inner.Write(p)
	if n > 0 {
		if c.keeper.activity == ActivityReadWrite {
			c.guard.Heard()
		}
		if c.noted != nil {
			c.noted.wrote.Store(int64(time.Since(c.keeper.start)))
		}
	}
	if err != nil {
		err = c.fail("write", err)
	}
	return n, err
}

// fail notes what an error says of the connection, and returns what the user
// gets to see: why the Keeper closed it, if it did.
func (c *conn) fail(op string, err error) error {
	if reason := Reason(c.ended.Load()); reason != 0 {
		e := &net.OpError{Op: op, Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: reason}
		if e.Source != nil { // some have none after Close
			e.Net = e.Source.Network()
		}
		return e
	}
	var timeout net.Error
	switch {
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
	case errors.As(err, &timeout) && timeout.Timeout(): // a deadline of the user's
	default:
		c.broken.Store(true)
	}
	return err
}

func (c *conn) Close() error {
	if c.ended.Load() != 0 {
		return nil // the Keeper closes it, after the last words
	}
	first := c.keeper.Release(c.guard)
	err := c.inner.Close()
	if first {
		reason := ReasonLocal
		if c.broken.Load() {
			reason = ReasonPeer
		}
		c.keeper.Closed(c.guard, reason)
	}
	if c.ended.Load() != 0 {
		return nil // the Keeper has closed it
	}
	return err
}

// refuse closes a connection that may not stay.
func (c *conn) refuse(reason Reason) {
	c.ended.Store(uint32(reason))
	_ = c.inner.Close()
}

// Due runs on a worker when there is something to be decided.
func (c *conn) Due(*Keeper, any) {
	if !c.deciding.CompareAndSwap(false, true) {
		// OnIdle is still being asked about a silence before this one.
		c.guard.member.Postpone(c.keeper.pool.Tick())
		return
	}
	expired := c.keeper.Expire(c.guard, c.heard)
	c.deciding.Store(false)
	if expired {
		c.end(c.guard.Reason())
	}
}

func (c *conn) LocalAddr() net.Addr                { return c.inner.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr               { return c.inner.RemoteAddr() }
func (c *conn) SetDeadline(t time.Time) error      { return c.inner.SetDeadline(t) }
func (c *conn) SetReadDeadline(t time.Time) error  { return c.inner.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.inner.SetWriteDeadline(t) }

// halfConn is a connection of which one direction can be closed.
type halfConn struct{ conn }

func (c *halfConn) CloseRead() error  { return c.closeRead() }
func (c *halfConn) CloseWrite() error { return c.closeWrite() }

// socketConn is a connection whose socket can be reached.
type socketConn struct{ conn }

func (c *socketConn) SyscallConn() (syscall.RawConn, error) {
	raw, err := c.inner.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil, err
	}
	return rawConn{raw}, nil
}

// rawConn hides what package os knows of a net.Conn's socket. It would send a file
// past ReadFrom, so that nobody knew of the transfer.
type rawConn struct{ syscall.RawConn }

// socketHalfConn is both, such as one of TCP.
type socketHalfConn struct{ socketConn }

func (c *socketHalfConn) CloseRead() error  { return c.closeRead() }
func (c *socketHalfConn) CloseWrite() error { return c.closeWrite() }

// countedConn is one whose heartbeats are counted. It has a type of its own so that
// Touch need not ask the others.
type countedConn struct{ socketHalfConn }

func (c *conn) closeRead() error {
	if half, ok := c.inner.(interface{ CloseRead() error }); ok {
		return half.CloseRead()
	}
	return errors.ErrUnsupported // as with TLS
}

func (c *conn) closeWrite() error {
	return c.inner.(interface{ CloseWrite() error }).CloseWrite()
}
