package heartbeat

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/socket"
)

// Conn is a connection with beats. It behaves like the one inside. A write makes the next beat
// unnecessary, and with AnswerRead a read is an answer. After the beats have failed, Read and
// Write return the reason, such as ErrNoAnswer, and Close returns nil.
//
// No beat begins while a Write is running, however long: a beat could only wait behind it. On Linux,
// the server lives meanwhile as long as it acknowledges bytes, however slowly. The connection is
// closed, see [ErrNoAnswer], if for Timeout nothing new is acknowledged, and nothing comes that would
// be an answer. On other systems, and without a socket of TCP, a running Write counts as life, and
// only SetWriteDeadline bounds it. A client without any pause between its writes sends no beats.
//
// It has no ReadFrom and WriteTo, so it sees the bytes of an io.Copy as they move. Hence there is
// no splice and no sendfile.
//
// [Start], [Beater.Start] and [Wrap] make one. All methods may be called by several
// goroutines at the same time.
type Conn struct {
	inner   net.Conn
	beat    atomic.Pointer[beat]  // the last one, or nil
	writing atomic.Int32          // running calls of Write
	broken  atomic.Pointer[error] // why the beats have closed it, or nil
}

var _ net.Conn = (*Conn)(nil)

// Wrap returns a connection that behaves like conn, and can have beats later. [Run] needs one to
// see reads and writes elsewhere. Wrap returns a *Conn as it is. conn must not be nil.
func Wrap(conn net.Conn) *Conn {
	if c, ok := conn.(*Conn); ok {
		return c
	}
	return &Conn{inner: conn}
}

// Done returns a channel. It is closed when the beats have ended. Before they begin, Done returns
// nil.
func (c *Conn) Done() <-chan struct{} {
	if x := c.beat.Load(); x != nil {
		return x.done
	}
	return nil
}

// Err returns why the beats have ended, or nil before. It returns [ErrNoAnswer] or the error of
// Beat, both wrapped, and then the connection is closed; net.ErrClosed, wrapped, after Close;
// [ErrStopped] after Stop; [ErrClosed] after Close of the Beater; or the error of Run.
func (c *Conn) Err() error {
	if x := c.beat.Load(); x != nil {
		return x.err()
	}
	return nil
}

// Interval returns the interval in force for this connection, or 0 before its beats begin.
func (c *Conn) Interval() time.Duration {
	x := c.beat.Load()
	if x == nil {
		return 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.delay
}

// TooMany says that the server complains of too many beats. It doubles the interval, up to three
// quarters of Options.Timeout, and returns the new one. Most such servers then close the
// connection: use the interval as Options.Interval of the next one. Give Timeout as well, or the
// bound grows with Interval.
func (c *Conn) TooMany() (interval time.Duration) {
	x := c.beat.Load()
	if x == nil {
		return 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.delay = min(2*x.delay, x.opts.mostInterval())
	x.timer.SetDelay(x.delay)
	x.timer.Touch()
	return x.delay
}

// Touch notes a write to the server past this Conn.
func (c *Conn) Touch() {
	if x := c.beat.Load(); x != nil {
		x.timer.Touch()
	}
}

// Stop ends the beats. The connection stays open. Stop does not wait for a beat being written, so
// beats started again can come beside it. Stopping again does nothing.
func (c *Conn) Stop() {
	if x := c.beat.Load(); x != nil {
		x.end(ErrStopped, false)
	}
}

// NetConn returns the connection inside.
func (c *Conn) NetConn() net.Conn { return c.inner }

func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.inner.Read(p)
	if n > 0 {
		if x := c.beat.Load(); x != nil {
			x.read()
		}
	}
	if err != nil {
		err = c.fail("read", err)
	}
	return n, err
}

func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.write(p)
	if n > 0 {
		c.Touch()
	}
	if err != nil {
		err = c.fail("write", err)
	}
	return n, err
}

func (c *Conn) write(p []byte) (int, error) {
	c.writing.Add(1)
	defer c.writing.Add(-1) // also after a panic
	return c.inner.Write(p)
}

// fail returns what the user gets to see of an error.
func (c *Conn) fail(op string, err error) error {
	why := c.broken.Load()
	if why == nil {
		return err
	}
	e := &net.OpError{Op: op, Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: *why}
	if e.Source != nil { // some have none after Close
		e.Net = e.Source.Network()
	}
	return e
}

// Close ends the beats and closes the connection.
func (c *Conn) Close() error {
	if x := c.beat.Load(); x != nil {
		x.end(errConnClosed, false)
	}
	err := c.inner.Close()
	if c.broken.Load() != nil {
		return nil // it had been closed
	}
	return err
}

// shut closes the connection because its beats have failed. It bypasses layers such as TLS: they
// would try to say goodbye.
func (c *Conn) shut(why error) {
	c.broken.CompareAndSwap(nil, &why)
	_ = innermost(c.inner).Close()
}

// innermost returns the connection inside of all layers.
func innermost(c net.Conn) net.Conn {
	for layer := range socket.Layers(c, nil) {
		c = layer
	}
	return c
}

// LocalAddr is for the connection inside.
func (c *Conn) LocalAddr() net.Addr { return c.inner.LocalAddr() }

// RemoteAddr is for the connection inside.
func (c *Conn) RemoteAddr() net.Addr { return c.inner.RemoteAddr() }

// SetDeadline is for the connection inside. The deadline for writing holds for beats, too.
func (c *Conn) SetDeadline(t time.Time) error { return c.inner.SetDeadline(t) }

// SetReadDeadline is for the connection inside.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.inner.SetReadDeadline(t) }

// SetWriteDeadline is for the connection inside. It holds for beats, too: after a deadline of an
// earlier write has passed, the next beat fails.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.inner.SetWriteDeadline(t) }

// CloseRead is for the connection inside, or returns errors.ErrUnsupported.
func (c *Conn) CloseRead() error {
	if half, ok := c.inner.(interface{ CloseRead() error }); ok {
		return half.CloseRead()
	}
	return errors.ErrUnsupported
}

// CloseWrite is for the connection inside, or returns errors.ErrUnsupported. It ends the beats,
// since they can be written no longer.
func (c *Conn) CloseWrite() error {
	half, ok := c.inner.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	c.Stop()
	return half.CloseWrite()
}

// SyscallConn is for the connection inside, or returns errors.ErrUnsupported.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	socket, ok := c.inner.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	return rawConn{raw}, nil
}

// rawConn hides what package os knows of a net.Conn's socket. It would send a file
// past Write.
type rawConn struct{ syscall.RawConn }
