package gnetkeepalive

import (
	"context"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/internal/lastword"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// maxLinger is how many bytes a peer may send after our side was closed.
const maxLinger = 4 << 20

// end closes a connection that Expire has given up, in the way that the config says.
func (l *loop) end(s silent) error {
	farewell, mode, timeout := l.keeper.LastWords(&s.guard.Guard)
	switch mode {
	case keepalive.CloseReset:
		_ = s.conn.SetLinger(0)
	case keepalive.CloseHalf:
		if write(s.conn, farewell) && lastword.CloseWrite(s.conn) == nil {
			s.guard.Seen = 0
			time.AfterFunc(timeout, func() { l.closeLater(s) })
			return nil
		}
	default:
		lastword.Say(s.conn, farewell)
	}
	return l.events.Close(s.conn)
}

// write writes a farewell and reports whether it has left for the kernel.
func write(c gnet.Conn, farewell []byte) bool {
	if len(farewell) > 0 {
		if _, err := c.Write(farewell); err != nil {
			return false
		}
	}
	return c.OutboundBuffered() == 0
}

// closeLater closes a connection whose peer has not done so in time.
func (l *loop) closeLater(s silent) {
	_ = l.events.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
		if s.conn.SafeContext() == any(s.guard) {
			return l.events.Close(s.conn)
		}
		return nil // closed meanwhile, and its descriptor may be somebody else's
	}))
}

// linger drops what a peer still sends after our side was closed.
func linger(c gnet.Conn, g *guard) gnet.Action {
	n, _ := c.Discard(-1)
	if g.Seen += uint32(n); g.Seen > maxLinger {
		return gnet.Close
	}
	return gnet.None
}
