package gnetkeepalive

import (
	"context"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/internal/gnetsocket"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

const (
	// gnet has no event for an empty outbound buffer, so part looks again and again: after a
	// share of 1/peeks of the time left, but not before minPeek.
	peeks   = 16
	minPeek = 10 * time.Millisecond
)

// End closes a connection, in the event loop. OnClose follows.
func (l *loop) End(b adapter.Binding, e adapter.Ending) {
	c := conn(b)
	if !isOpen(b) {
		return // the farewell has closed it
	}
	// The close would drop the bytes in gnet's buffer. A silent peer gets no time for them,
	// unless there is a farewell to send, or half a close.
	waits := len(e.Farewell) > 0 || e.Mode == adapter.Half || !e.Reason.Timeout()
	if e.Mode == adapter.Graceful {
		e.Farewell = gnetsocket.SayLast(c, e.Farewell)
	}
	if len(e.Farewell) > 0 {
		_, _ = c.Write(e.Farewell) // if it fails, gnet closes the connection
	}
	switch {
	case !isOpen(b):
	case e.Mode == adapter.Reset:
		_ = c.SetLinger(0)
		l.err = l.events.Close(c)
	case waits:
		*b.Scratch() = 0
		l.err = l.part(b, e.Mode, time.Now().Add(e.Timeout))
	default:
		l.err = l.events.Close(c)
	}
}

// part closes a connection when all written bytes have left for the kernel, and with CloseHalf
// when the peer has closed it, but then at the latest.
func (l *loop) part(b adapter.Binding, mode adapter.Mode, then time.Time) error {
	if !isOpen(b) {
		return nil
	}
	c, left := conn(b), time.Until(then)
	switch {
	case left <= 0:
	case c.OutboundBuffered() > 0:
		l.partLater(b, mode, then, max(minPeek, left/peeks))
		return nil
	case mode == adapter.Half && gnetsocket.CloseWrite(c) == nil:
		l.partLater(b, mode, then, left)
		return nil
	}
	return l.events.Close(c)
}

// partLater calls part in the event loop after d. Until then the connection lingers.
func (l *loop) partLater(b adapter.Binding, mode adapter.Mode, then time.Time, d time.Duration) {
	time.AfterFunc(d, func() {
		_ = l.events.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
			return l.part(b, mode, then)
		}))
	})
}

// linger drops the peer's bytes after our side was closed.
func linger(c gnet.Conn, b adapter.Binding) gnet.Action {
	n, _ := c.Discard(-1)
	sent := b.Scratch()
	if *sent += uint32(n); *sent > adapter.MaxLinger {
		return gnet.Close
	}
	return gnet.None
}
