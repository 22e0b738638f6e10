package gnetkeepalive

import (
	"context"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/internal/gnetsocket"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

const (
	// gnet has no event for an empty outbound buffer, so part looks again and again: after a
	// share of 1/peeks of the time left, but not before minPeek.
	peeks   = 16
	minPeek = 10 * time.Millisecond
)

// End closes a connection, in the event loop. OnClose follows.
func (l *loop) End(g *keepalive.Guard, farewell []byte, mode keepalive.CloseMode, timeout time.Duration) {
	c := conn(g)
	if !isOpen(g) {
		return // the farewell has closed it
	}
	// The close would drop the bytes in gnet's buffer. A silent peer gets no time for them,
	// unless there is a farewell to send, or half a close.
	waits := len(farewell) > 0 || mode == keepalive.CloseHalf || !adapter.Reason(g).Timeout()
	if mode == keepalive.CloseGraceful {
		farewell = gnetsocket.SayLast(c, farewell)
	}
	if len(farewell) > 0 {
		_, _ = c.Write(farewell) // if it fails, gnet closes the connection
	}
	switch {
	case !isOpen(g):
	case mode == keepalive.CloseReset:
		_ = c.SetLinger(0)
		l.err = l.events.Close(c)
	case waits:
		*adapter.Scratch(g) = 0
		l.err = l.part(g, mode, time.Now().Add(timeout))
	default:
		l.err = l.events.Close(c)
	}
}

// part closes a connection when all written bytes have left for the kernel, and with CloseHalf
// when the peer has closed it, but then at the latest.
func (l *loop) part(g *keepalive.Guard, mode keepalive.CloseMode, then time.Time) error {
	if !isOpen(g) {
		return nil
	}
	c, left := conn(g), time.Until(then)
	switch {
	case left <= 0:
	case c.OutboundBuffered() > 0:
		l.partLater(g, mode, then, max(minPeek, left/peeks))
		return nil
	case mode == keepalive.CloseHalf && gnetsocket.CloseWrite(c) == nil:
		l.partLater(g, mode, then, left)
		return nil
	}
	return l.events.Close(c)
}

// partLater has the event loop go on with part after d. Until then the connection lingers.
func (l *loop) partLater(g *keepalive.Guard, mode keepalive.CloseMode, then time.Time, d time.Duration) {
	time.AfterFunc(d, func() {
		_ = l.events.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
			return l.part(g, mode, then)
		}))
	})
}

// linger drops the peer's bytes after our side was closed.
func linger(c gnet.Conn, g *keepalive.Guard) gnet.Action {
	n, _ := c.Discard(-1)
	sent := adapter.Scratch(g)
	if *sent += uint32(n); *sent > uint32(adapter.MaxLinger) {
		return gnet.Close
	}
	return gnet.None
}
