package conns

import (
	"reflect"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

const (
	// nbio has no event for an empty write queue, so part looks again and again: after a share
	// of 1/peeks of the time left, but not before minPeek.
	peeks   = 16
	minPeek = 10 * time.Millisecond
)

// End closes the connection. nbio's close follows, and calls Closed.
func (c *Conn) End(_ adapter.Binding, e adapter.Ending) {
	if c.closing.Add(1) == 2 { // somebody else has closed it
		c.gone(false)
		return
	}
	// The close drops the bytes in nbio's queue. A silent peer gets no time for them, unless
	// there is a farewell to send, or half a close.
	waits := len(e.Farewell) > 0 || e.Mode == adapter.Half || !e.Reason.Timeout()
	if len(e.Farewell) > 0 {
		_, _ = c.nb.Write(e.Farewell) // if it fails, nbio closes the connection
	}
	switch {
	case e.Mode == adapter.Reset:
		_ = c.Control(nil, reset)
		c.close()
	case waits:
		c.part(e.Mode, time.Now().Add(e.Timeout))
	default:
		c.close()
	}
}

// part closes the connection when all written bytes have left for the kernel, and with CloseHalf
// when the peer has closed it, but then at the latest.
func (c *Conn) part(mode adapter.Mode, then time.Time) {
	closed, _ := c.nb.IsClosed()
	left := time.Until(then)
	switch {
	case closed:
		return
	case left <= 0:
	case c.queued():
		time.AfterFunc(max(minPeek, left/peeks), func() { c.part(mode, then) })
		return
	case mode == adapter.Half && c.closeWrite():
		time.AfterFunc(left, c.close)
		return
	}
	c.close()
}

// close tells nbio's own functions the reason, too.
func (c *Conn) close() { _ = c.nb.CloseWithError(c.guard.Binding().Reason()) }

// queued reports whether bytes wait in nbio's write queue. nbio has no function for that.
func (c *Conn) queued() bool {
	c.nb.Lock()
	defer c.nb.Unlock()
	queue := reflect.ValueOf(c.nb).Elem().FieldByName("writeList")
	return queue.IsValid() && queue.Len() > 0
}

// closeWrite ends our side, and reports whether that has worked.
func (c *Conn) closeWrite() bool {
	ended := false
	_ = c.Control(nil, func(fd uintptr) { ended = shutWrite(fd) == nil })
	return ended
}

// linger drops bytes of the peer after our side was closed.
func (c *Conn) linger(n int) {
	if c.sent.Add(int64(n)) > adapter.MaxLinger {
		c.close()
	}
}

// Discard reads what has arrived, for linger.
func (c *Conn) Discard() {
	if c == nil {
		return
	}
	var buf [4 << 10]byte
	for {
		n, err := c.nb.Read(buf[:])
		if n <= 0 || err != nil {
			return
		}
		c.linger(n)
	}
}
