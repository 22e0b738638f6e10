package gnetkeepalive

import (
	"context"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/internal/lastword"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	// peeks is how often within its time to see whether what waits for a slow peer has
	// left, of which gnet tells nobody; but not more often than each minPeek.
	peeks   = 16
	minPeek = 10 * time.Millisecond
)

// end closes a connection that Expire has given up, in the way that the config says.
func (l *loop) end(s silent) error {
	farewell, mode, timeout := l.keeper.LastWords(&s.guard.Guard)
	if !s.isOpen() {
		return nil // Farewell has closed it
	}
	// What gnet has in its buffer would be lost. A peer that is silent does not get the
	// time for that, unless it is to get a farewell.
	waits := len(farewell) > 0 || mode == keepalive.CloseHalf || !s.guard.Reason().Timeout()
	if mode == keepalive.CloseGraceful {
		farewell = lastword.Say(s.conn, farewell)
	}
	if len(farewell) > 0 {
		_, _ = s.conn.Write(farewell) // where that fails, gnet closes it
	}
	switch {
	case !s.isOpen():
		return nil
	case mode == keepalive.CloseReset:
		_ = s.conn.SetLinger(0)
	case waits:
		s.guard.Seen = 0
		return l.part(s, mode, time.Now().Add(timeout))
	}
	return l.events.Close(s.conn)
}

// part closes a connection when what was written has left for the kernel, and with
// CloseHalf when the peer has closed it, but then at the latest.
func (l *loop) part(s silent, mode keepalive.CloseMode, then time.Time) error {
	if !s.isOpen() {
		return nil
	}
	left := time.Until(then)
	switch {
	case left <= 0:
	case s.conn.OutboundBuffered() > 0:
		l.partLater(s, mode, then, max(minPeek, left/peeks))
		return nil
	case mode == keepalive.CloseHalf && lastword.CloseWrite(s.conn) == nil:
		l.partLater(s, mode, then, left)
		return nil
	}
	return l.events.Close(s.conn)
}

// partLater has the event loop go on with part after d. Until then the connection
// lingers.
func (l *loop) partLater(s silent, mode keepalive.CloseMode, then time.Time, d time.Duration) {
	if looks := &loopsOf(l.keeper).looks; !looks.Load() {
		looks.Store(true)
	}
	time.AfterFunc(d, func() {
		_ = l.events.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
			return l.part(s, mode, then)
		}))
	})
}

// isOpen reports whether a connection has not been closed, after which its descriptor
// may be somebody else's, and is still guarded. It must run in the event loop.
func (s silent) isOpen() bool { return s.conn.SafeContext() == any(s.guard) }

// linger drops what a peer still sends after our side was closed.
func linger(c gnet.Conn, g *guard) gnet.Action {
	n, _ := c.Discard(-1)
	if g.Seen += uint32(n); g.Seen > keepalive.MaxLinger {
		return gnet.Close
	}
	return gnet.None
}
