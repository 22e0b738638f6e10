package server

import (
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive/gnetkeepalive"
)

// gate counts descriptors. MaxConns bounds the connections guarded by the Keeper. During its
// farewell a connection is guarded no longer, and still has its descriptor. Peers could come
// back faster and use up the spare descriptors, and gnet's engine ends if an accept finds none.
type gate struct {
	gnet.EventHandler // of gnetkeepalive
	server            *Server
	open              atomic.Int64
	warned            atomic.Int64 // when, in nanoseconds since 1970
}

// turnedAway is in the SafeContext of a connection refused by the gate.
type turnedAway struct{}

func newGate(h *handler, s *Server) *gate {
	guarded := gnetkeepalive.Wrap(h, s.keeper)
	if proxies := s.cfg.Load().Proxies; !proxies.IsZero() {
		guarded, _ = gnetkeepalive.WrapProxied(h, s.keeper, proxies) // New has checked them
	}
	return &gate{EventHandler: guarded, server: s}
}

func (g *gate) OnOpen(c gnet.Conn) (out []byte, action gnet.Action) {
	if n := g.open.Add(1); n > g.server.most.Load() {
		g.server.crowded.Add(1)
		g.warn(n)
		c.SetSafeContext(turnedAway{})
		return []byte(refusedFull), gnet.Close
	}
	return g.EventHandler.OnOpen(c)
}

func (g *gate) OnClose(c gnet.Conn, err error) gnet.Action {
	defer g.open.Add(-1)
	if _, ok := c.SafeContext().(turnedAway); ok {
		return gnet.None
	}
	return g.EventHandler.OnClose(c, err)
}

// warn logs one line a second at most.
func (g *gate) warn(open int64) {
	now := time.Now().UnixNano()
	if last := g.warned.Load(); now-last < int64(time.Second) && now >= last || !g.warned.CompareAndSwap(last, now) {
		return
	}
	g.server.log.Warn("server: refusing connections: those that are being closed still have their descriptors",
		"open", open, "most", g.server.most.Load(), "refused", g.server.crowded.Load())
}
