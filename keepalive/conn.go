package keepalive

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/socket"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// Conn returns a guarded connection that behaves like c. Unless it is refused, its methods are those of c, as far as
// a net.Conn has them, with ReadFrom and WriteTo, by which splice and sendfile still happen;
// CloseRead, CloseWrite and SyscallConn if c has them; and NetConn, which returns c.
// Give net.Buffers to ReadFrom: it is one writev. Their WriteTo is that for connections of package
// net only, and calls Write for each buffer of any other.
//
// Deadlines are the program's, and never touched. After the Keeper has closed the connection,
// Read and Write return the [Reason], such as [ErrIdleTimeout], and Close returns nil and
// leaves the Keeper the time for a farewell.
//
// A connection guarded already is returned as it is, and so is any connection after
// Keeper.Close. If there are too many connections, or the Keeper is draining, c is closed, after the
// words of Config.OnRefuse if there are any, and using the connection gives [ReasonFull] or [ReasonDrain].
//
// Conn panics without a Keeper from New, or without a connection.
func (k *Keeper) Conn(c net.Conn) net.Conn {
	k.must("Conn")
	if isNil(c) {
		panic(fmt.Sprintf("keepalive: Conn needs a connection, and got %#v", c))
	}
	if g := Of(c); g != nil && g.keeper == k {
		return c
	}
	guarded, err := k.wrap(c)
	switch {
	case err == nil:
		return guarded
	case errors.Is(err, ErrNotGuarded):
		strangers.add(c)
		return c
	}
	k.countRefused(err)
	refused := &conn{inner: c, keeper: k, guard: new(Guard)}
	refused.refuse(reasonOf(err), false)
	refused.inner = unreadable{c} // what the peer still sends is for refusals
	return refused
}

// unreadable is a refused connection, perhaps still open for its last words.
type unreadable struct{ net.Conn }

func (unreadable) Read([]byte) (int, error) { return 0, net.ErrClosed }

// reasonOf returns the reason of a refusal.
func reasonOf(err error) Reason {
	reason, _ := errors.AsType[Reason](err)
	return cmp.Or(reason, ReasonFull)
}

// wrap returns a guarded connection, with as many methods as inner has.
func (k *Keeper) wrap(inner net.Conn) (net.Conn, error) {
	var c interface {
		net.Conn
		self() *conn
	}
	_, halves := inner.(interface{ CloseWrite() error })
	_, raw := inner.(syscall.Conn)
	switch {
	case halves && raw:
		c = new(tcpConn)
	case halves:
		c = new(halfConn)
	case raw:
		c = new(socketConn)
	default:
		c = new(conn)
	}
	self := c.self()
	self.inner, self.keeper, self.guard = inner, k, new(Guard)
	remote := identity(inner)
	found, layers, err := socket.Of(inner, k.unwrap())
	if err == nil {
		_ = found.Control(self.guard.meet)
	}
	if headed := remote == nil && layers > 0; headed || !self.guard.tells() {
		self.noted = newNoted()
		self.noted.headed = headed
		self.noted.blind = errors.Is(err, socket.ErrNone) && !socket.IsPipe(inner, k.unwrap())
	}
	if remote == nil {
		self.flags.Store(connUnknown)
	}
	if err := k.admit(self.guard, c, self, remote); err != nil {
		return nil, err
	}
	return c, nil
}

// conn is a guarded connection. The types below add the methods of some connections only.
type conn struct {
	inner  net.Conn
	keeper *Keeper

	// guard is an object of its own, since a slot of the wheel may keep it for a while after the
	// connection is closed.
	guard *Guard

	noted     *noted        // nil if the socket tells all
	flags     atomic.Uint32 // connUnknown, connBroken
	ended     atomic.Uint32 // the Reason that calls of the program return from now on, or 0; the guard's is there once the end is decided
	transfers atomic.Int32  // running ReadFrom and WriteTo
	writing   atomic.Int32  // KiB in running calls of Write, see kib
	parting   atomic.Pointer[parting]
}

const (
	connUnknown = 1 << iota // RemoteAddr may block: PROXY header unread
	connBroken              // the peer has closed it, or it broke
)

// isUnknown reports whether the address of the peer is unknown so far.
func (c *conn) isUnknown() bool { return c.flags.Load()&connUnknown != 0 }

func (c *conn) self() *conn { return c }

// guarded is how Of finds the guard.
func (c *conn) guarded() *Guard { return c.guard }

// Due runs on a worker when there is something to be decided.
func (c *conn) Due(b adapter.Binding) { b.Decide() }

// Do runs a function: any goroutine will do.
func (c *conn) Do(_ context.Context, _ adapter.Binding, f func()) error {
	f()
	return nil
}

// Control calls f with the socket.
func (c *conn) Control(_ adapter.Binding, f func(fd uintptr)) error {
	raw, _, err := socket.Of(c.inner, c.keeper.unwrap())
	if err != nil {
		return err
	}
	return raw.Control(f)
}

// identity returns the address of a peer, or nil if asking for it may have to wait: a
// connection with a PROXY header has to read first.
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

// identify looks at the address of the peer after the first read, if the address was unknown
// until then. It closes the connection if there are too many of the same peer.
func (c *conn) identify() error {
	if c.flags.And(^uint32(connUnknown))&connUnknown == 0 || c.guard.identify(c.inner.RemoteAddr()) {
		return nil
	}
	if c.guard.release() {
		c.refuse(ReasonFull, true)
		c.guard.closed(ReasonFull)
	}
	return c.fail("read", ReasonFull)
}

// Peer returns nil: until identify has noted the address, asking for it may have to wait.
func (c *conn) Peer(adapter.Binding) net.Addr { return nil }

// NetConn returns the connection inside.
func (c *conn) NetConn() net.Conn { return c.inner }

func (c *conn) Read(p []byte) (int, error) {
	c.guard.readsOn()
	n, err := c.read(p)
	if n > 0 {
		c.guard.came()
		if c.ended.Load() != 0 {
			c.parting.Load().wait()
			return 0, c.fail("read", err) // later bytes are not for the program, see CloseHalf
		}
		if c.isUnknown() {
			if err := c.identify(); err != nil {
				return 0, err
			}
		}
		binding{c.guard}.Read()
	}
	if err != nil {
		err = c.fail("read", err)
	}
	return n, err
}

// read reads, and notes what the socket can't tell.
func (c *conn) read(p []byte) (int, error) {
	if c.noted == nil {
		return c.inner.Read(p)
	}
	c.noted.listening.Add(1)
	defer c.noted.listening.Add(-1)
	n, err := c.inner.Read(p)
	if n > 0 && !c.guard.tells() {
		c.noted.read(n)
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	size := kib(len(p))
	parting, err := c.toWrite(size)
	if err != nil {
		return 0, err
	}
	if parting != nil {
		defer parting.written()
	}
	n, err := c.inner.Write(p)
	return n, c.wrote(size, n > 0, err)
}

// kib returns a number of bytes in KiB, rounded up.
func kib(bytes int) int32 { return int32((bytes + 1<<10 - 1) >> 10) }

// toWrite begins a write of so many KiB, for wrote to end. It returns an error for one that would come after the
// farewell. beside is not nil if the write comes beside one.
func (c *conn) toWrite(size int32) (beside *parting, err error) {
	if c.ended.Load() != 0 {
		if beside = c.parting.Load(); beside == nil {
			return nil, c.fail("write", net.ErrClosed)
		}
	}
	c.writing.Add(size)
	return beside, nil
}

// wrote notes the end of a write, and returns the error for the program.
func (c *conn) wrote(size int32, some bool, err error) error {
	c.writing.Add(-size)
	if some {
		if c.noted != nil {
			c.noted.lastWrite.set()
		}
		binding{c.guard}.Wrote()
	}
	if err != nil {
		err = c.fail("write", err)
	}
	return err
}

// fail notes what an error says of the connection, and returns the error for the program: the
// Reason, if the Keeper has closed the connection.
func (c *conn) fail(op string, err error) error {
	if reason := Reason(c.ended.Load()); reason != 0 {
		c.guard.endContext(reason) // the program learns of the end now
		e := &net.OpError{Op: op, Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: reason}
		if e.Source != nil { // some have none after Close
			e.Net = e.Source.Network()
		}
		return e
	}
	var timeout net.Error
	switch {
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
	case errors.As(err, &timeout) && timeout.Timeout() && !errors.Is(err, syscall.ETIMEDOUT): // a deadline of the program's
	default:
		c.flags.Or(connBroken)
	}
	return err
}

func (c *conn) Close() error {
	if reason := Reason(c.ended.Load()); reason != 0 {
		c.guard.endContext(reason)
		return nil // the Keeper closes it, after the farewell
	}
	first := c.guard.release()
	if !first && c.guard.reason() != 0 {
		return nil // the Keeper is about to: its farewell is being made
	}
	err := c.inner.Close()
	if first {
		reason := c.guard.localReason()
		if c.flags.Load()&connBroken != 0 {
			reason = ReasonPeer
		}
		c.guard.closed(reason)
	}
	if c.ended.Load() != 0 {
		return nil // the Keeper has closed it
	}
	return err
}

// refuse closes a connection, for ReasonFull or ReasonDrain.
func (c *conn) refuse(reason Reason, asked bool) {
	c.ended.Store(uint32(reason))
	c.keeper.turnAway(c.inner, reason, asked)
}

// End closes the connection for a reason of the Keeper's. A farewell may have to wait, so it
// has a goroutine of its own: the workers are for others.
func (c *conn) End(_ adapter.Binding, e adapter.Ending) {
	g, mode, reason := c.guard, CloseMode(e.Mode), e.Reason.(Reason)
	up := g.upgradeNow()
	if up != nil {
		c.parting.Store(newParting())
	}
	c.ended.Store(uint32(reason))
	layered := c.isLayered() // its last words may have to wait, as those of TLS
	if up == nil && len(e.Farewell) == 0 && mode != CloseHalf && !layered {
		defer g.closed(reason) // even after a panic of the connection inside
		c.shut(mode)
		return
	}
	go func() {
		end := time.AfterFunc(e.Timeout, func() { // deadlines are the program's
			c.parted() // first: a Read fails with the close
			_ = belowTLS(c.inner).Close()
			_ = c.inner.Close()
		})
		defer func() { // even after runtime.Goexit
			c.shut(mode) // last words of a layer may have to wait, too
			end.Stop()
			g.closed(reason)
		}()
		if up != nil {
			c.part(up, e.Timeout)
		}
		c.bid(e.Farewell, mode)
	}()
}

// shut closes the connection inside.
func (c *conn) shut(mode CloseMode) {
	if mode == CloseReset {
		c.dropUnsent()
	}
	_ = c.inner.Close()
}

// isLayered reports whether there is a connection inside the one inside.
func (c *conn) isLayered() bool {
	layers := 0
	for range socket.Layers(c.inner, c.keeper.unwrap()) {
		if layers++; layers > 1 {
			return true
		}
	}
	return false
}

// belowTLS returns the connection inside those of TLS, or c. Their Close gives a peer five seconds for a last word, unless
// the connection below is closed. What is below another layer may be somebody else's, too.
func belowTLS(c net.Conn) net.Conn {
	for {
		over, ok := c.(*tls.Conn)
		if !ok {
			return c
		}
		c = over.NetConn()
	}
}

// dropUnsent makes the close of a connection, or of the one inside it, drop all bytes that are not sent yet.
func (c *conn) dropUnsent() {
	for layer := range socket.Layers(c.inner, c.keeper.unwrap()) {
		if lingers, ok := layer.(interface{ SetLinger(sec int) error }); ok {
			_ = lingers.SetLinger(0)
			return
		}
	}
}

// bid says farewell, and with CloseHalf waits for the peer's end.
func (c *conn) bid(farewell []byte, mode CloseMode) {
	if len(farewell) > 0 {
		if _, err := c.inner.Write(farewell); err != nil {
			return
		}
	}
	half, ok := c.inner.(interface{ CloseWrite() error })
	if ok && mode == CloseHalf && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(c.inner, adapter.MaxLinger))
	}
}

func (c *conn) LocalAddr() net.Addr { return c.inner.LocalAddr() }

// RemoteAddr may have to read a PROXY header.
func (c *conn) RemoteAddr() net.Addr {
	if c.isUnknown() && c.noted != nil {
		c.noted.listening.Add(1)
		defer c.noted.listening.Add(-1)
	}
	return c.inner.RemoteAddr()
}

func (c *conn) SetDeadline(t time.Time) error      { return c.inner.SetDeadline(t) }
func (c *conn) SetReadDeadline(t time.Time) error  { return c.inner.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.inner.SetWriteDeadline(t) }

// halfConn is a connection with half-closes.
type halfConn struct{ conn }

func (c *halfConn) CloseRead() error  { return c.closeRead() }
func (c *halfConn) CloseWrite() error { return c.closeWrite() }

// socketConn is a connection with a socket within reach.
type socketConn struct{ conn }

func (c *socketConn) SyscallConn() (syscall.RawConn, error) {
	raw, err := c.inner.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil, err
	}
	return rawConn{raw}, nil
}

// rawConn hides from package os that this is the socket of a net.Conn. Package os would send a
// file past ReadFrom, and nobody would know of the transfer.
type rawConn struct{ syscall.RawConn }

// tcpConn is both, such as a connection of TCP.
type tcpConn struct{ socketConn }

func (c *tcpConn) CloseRead() error  { return c.closeRead() }
func (c *tcpConn) CloseWrite() error { return c.closeWrite() }

func (c *conn) closeRead() error {
	if half, ok := c.inner.(interface{ CloseRead() error }); ok {
		return half.CloseRead()
	}
	return errors.ErrUnsupported // as with TLS
}

func (c *conn) closeWrite() error {
	return c.inner.(interface{ CloseWrite() error }).CloseWrite()
}
