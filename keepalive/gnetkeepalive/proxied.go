package gnetkeepalive

import (
	"net"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/proxyprotocol"
)

// WrapProxied is [Wrap] for connections that begin with a header of the PROXY protocol. OnOpen comes after the header,
// RemoteAddr is the client's address from then on, and OnTraffic gets the bytes behind the header only. If a connection ends
// before, the handler hears nothing of it; functions of the Config, such as Age.OnMax, may. A refused one gets OnRefuse, if
// its client has too many connections. UDP, and connections that were dialled, have no header: they belong to another engine.
//
// It returns an error that wraps proxyprotocol.ErrArgument if cfg is impossible.
func WrapProxied(inner gnet.EventHandler, k *keepalive.Keeper, cfg proxyprotocol.Config) (gnet.EventHandler, error) {
	h := Wrap(inner, k)
	headers, err := proxyprotocol.NewHeaders(cfg, k.Binder().Logger())
	if err != nil {
		return nil, err
	}
	h.(*handler).headers = headers
	return h, nil
}

// unnamed is in the SafeContext of a guarded connection until its header has come. The handler has not heard of it.
type unnamed struct {
	guard *keepalive.Guard
	proxy net.Addr // a copy, since any goroutine may read it
}

// SafeContext is the way of keepalive.Of to the guard.
func (u *unnamed) SafeContext() any { return u.guard }

// await has a guarded connection wait for its header.
func await(c gnet.Conn, g *keepalive.Guard) {
	g.Binding().Header(-1)
	c.SetSafeContext(&unnamed{guard: g, proxy: proxyprotocol.Copy(c.RemoteAddr())})
}

// name is OnTraffic before the end of the header.
func (h *handler) name(c gnet.Conn, u *unnamed) gnet.Action {
	b := u.guard.Binding()
	if b.Reason() != nil {
		return linger(c, b)
	}
	buf, _ := c.Peek(min(c.InboundBuffered(), proxyprotocol.MaxSize))
	header, whole, err := h.headers.Parse(u.proxy, buf)
	switch {
	case err != nil:
		return gnet.Close
	case !whole || len(buf) == 0:
		return gnet.None
	case header.Size > 0: // 0 would be all
		_, _ = c.Discard(header.Size)
	default:
		header.Source = u.proxy // its own
	}
	b.Header(header.Size)
	proxyprotocol.Rename(c.RemoteAddr(), header.Source)
	c.SetSafeContext(u.guard)
	if header.Source != nil && b.Identify(header.Source) != nil {
		out, action := h.refuse(c, keepalive.ReasonFull, c.InboundBuffered() > 0)
		return reply(c, out, action)
	}
	return h.open(c)
}

// open tells the handler of a connection with all of its header, and hands on what came behind that.
func (h *handler) open(c gnet.Conn) gnet.Action {
	out, action := h.EventHandler.OnOpen(c)
	if c.SafeContext() == nil { // the handler has closed it
		return action
	}
	if action = reply(c, out, action); action != gnet.None || c.SafeContext() == nil || c.InboundBuffered() == 0 {
		return action
	}
	return h.OnTraffic(c)
}

// reply does what gnet does after OnOpen. A failed write has closed the connection.
func reply(c gnet.Conn, out []byte, action gnet.Action) gnet.Action {
	if len(out) > 0 {
		if _, err := c.Write(out); err != nil && action != gnet.Shutdown {
			return gnet.None
		}
	}
	return action
}

// guardOf returns the guard in the SafeContext of a connection, also before its header has come, or nil.
func guardOf(c gnet.Conn) *keepalive.Guard {
	switch s := c.SafeContext().(type) {
	case *keepalive.Guard:
		return s
	case *unnamed:
		return s.guard
	}
	return nil
}
