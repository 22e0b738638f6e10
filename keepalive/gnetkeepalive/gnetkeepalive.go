// Package gnetkeepalive closes gnet connections when their peers have fallen silent. gnet
// itself has no deadlines.
//
//	k, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
//	...
//	err = gnet.Run(gnetkeepalive.Wrap(handler, k), "tcp://:9000", gnet.WithMulticore(true))
//
// The handler sees the same as without: its connections are gnet's own, with their Context.
// OnClose gets [keepalive.ErrIdleTimeout] for a connection closed for its silence.
//
// Wrap is for connections of TCP and Unix sockets, accepted or dialled with gnet.Client; UDP
// passes through. WrapProxied is for connections of a proxy that names its clients by the PROXY
// protocol. WrapUDP is for the sessions of a UDP server; all else passes through.
//
// # Contexts
//
// SafeContext holds the guard of the connection and must be left alone. An overwritten
// SafeContext leaves the connection unguarded; this is logged. Context is the handler's. A
// value given to gnet's Register or Enroll is in Context.
//
// # What counts as life
//
// With ActivityRead, arrived bytes; OnTraffic after a Wake, without new bytes, is no life. (If
// the socket can't tell, as with Unix sockets and on systems other than Linux, Wake is life
// while there are bytes not yet consumed by the handler.) With ActivityReadWrite also bytes
// acknowledged by the peer, on Linux with TCP only. With ActivityManual only [keepalive.Touch],
// which takes a gnet.Conn on any goroutine. With ActivityKernel, arrived bytes; Unix sockets
// are kept as with ActivityRead.
//
// # Event loops
//
// Each connection's own event loop decides whether to close it, behind the waiting reads. The loop
// takes a few connections at a time, so the live ones don't wait when very many are closed.
// OnIdle is called there, too: it may write to the connection, and must not block.
package gnetkeepalive

import (
	"errors"
	"net"
	"strings"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
	"github.com/heartwheel-go/heartwheel/keepalive/proxyprotocol"
)

// Wrap returns an event handler for gnet.Run and gnet.NewClient. It guards each connection with
// k and leaves the rest to inner. It may be used for several engines, at the same time or one
// after the other. k is the caller's to close, after the engines have stopped.
func Wrap(inner gnet.EventHandler, k *keepalive.Keeper) gnet.EventHandler {
	if inner == nil || k.Binder() == nil {
		panic("gnetkeepalive: Wrap needs a handler and a Keeper from keepalive.New")
	}
	return &handler{EventHandler: inner, keeper: k}
}

// handler passes OnBoot, OnShutdown and OnTick through. It starts nothing before there are
// connections, so a failed start of the engine leaves nothing behind.
//
// The scratch of a connection's guard is how many bytes its program had not consumed after the
// last OnTraffic, and later how many the peer has sent after our side was closed. Only the
// event loop uses it.
type handler struct {
	gnet.EventHandler
	keeper  *keepalive.Keeper
	headers *proxyprotocol.Headers // nil without proxies
	loops   loops
}

func (h *handler) OnOpen(c gnet.Conn) (out []byte, action gnet.Action) {
	if _, ok := c.LocalAddr().(*net.UDPAddr); ok {
		return h.EventHandler.OnOpen(c)
	}
	headed, err := h.headers.Expects(c.RemoteAddr())
	if err != nil {
		c.SetSafeContext(refused{})
		return nil, gnet.Close
	}
	remote := lasting(c.RemoteAddr())
	if headed {
		remote = nil // the proxy's
	}
	// Before the handler runs, since the handler may already touch the connection, or close it.
	// SafeContext comes first, since keepalive.Of looks for the guard there.
	g := new(keepalive.Guard)
	c.SetSafeContext(g)
	err = h.keeper.Bind(g, c, h.loops.enter(c.EventLoop()), remote)
	if reason, refused := errors.AsType[keepalive.Reason](err); refused {
		return h.refuse(c, reason, false)
	}
	switch {
	case headed: // also if the Keeper has been closed
		await(c, g)
		return nil, gnet.None
	case err != nil: // the Keeper has been closed
		h.loops.leave(c.EventLoop())
		c.SetSafeContext(nil)
	}
	return h.EventHandler.OnOpen(c)
}

// lasting returns an address that outlives its connection. gnet uses the memory of a zone again
// after the close.
func lasting(addr net.Addr) net.Addr {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.Zone != "" {
		return &net.TCPAddr{IP: tcp.IP, Port: tcp.Port, Zone: strings.Clone(tcp.Zone)}
	}
	return addr
}

func (h *handler) OnTraffic(c gnet.Conn) gnet.Action {
	s := c.SafeContext()
	g, ok := s.(*keepalive.Guard)
	if !ok { // one comparison, which a switch of two is not
		return h.unguardedTraffic(c, s)
	}
	b := g.Binding()
	if b.Reason() != nil {
		return linger(c, b)
	}
	// More than was left over last time is something new. If the handler consumes bytes outside
	// of OnTraffic, this can miss some: the socket knows of them when it is asked. If it can't
	// tell, leftover bytes count as new.
	left := b.Scratch()
	if n := uint32(c.InboundBuffered()); n > *left || n > 0 && !b.Tells() {
		b.Read()
	}
	action := h.EventHandler.OnTraffic(c)
	*left = uint32(c.InboundBuffered())
	return action
}

// unguardedTraffic is OnTraffic without a guard in the SafeContext.
func (h *handler) unguardedTraffic(c gnet.Conn, context any) gnet.Action {
	if u, ok := context.(*unnamed); ok {
		return h.name(c, u)
	}
	return h.EventHandler.OnTraffic(c)
}

func (h *handler) OnClose(c gnet.Conn, err error) gnet.Action {
	switch s := c.SafeContext().(type) {
	case *keepalive.Guard:
		return h.close(c, s.Binding(), err, h.EventHandler.OnClose)
	case *unnamed:
		return h.close(c, s.guard.Binding(), err, func(gnet.Conn, error) gnet.Action { return gnet.None })
	case refused:
		return gnet.None
	default:
		return h.EventHandler.OnClose(c, err)
	}
}

func (h *handler) close(c gnet.Conn, b adapter.Binding, err error, tell func(gnet.Conn, error) gnet.Action) gnet.Action {
	released, byPeer := b.Release(), err != nil
	reason := b.Reason()
	if reason != nil {
		err = reason
	}
	h.loops.leave(c.EventLoop())
	if released || reason != nil {
		defer b.Closed(byPeer) // even after a panic: the program may recover, and drains wait for the end
	}
	return tell(c, err)
}
