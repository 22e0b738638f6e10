// Package gnetkeepalive closes gnet connections whose peers have fallen silent.
// gnet itself has no deadlines.
//
//	k, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
//	...
//	err = gnet.Run(gnetkeepalive.Wrap(handler, k), "tcp://:9000", gnet.WithMulticore(true))
//
// The handler sees what it would see without: its connections are gnet's own,
// with their Context. OnClose gets [keepalive.ErrIdleTimeout] for those that
// were closed because they were silent.
//
// It is for connections of TCP and Unix sockets, accepted or dialled with
// gnet.Client. UDP passes through.
//
// # What belongs to whom
//
// SafeContext holds the guard of the connection and must be left alone. A
// connection whose SafeContext is overwritten is not guarded any more. Context is
// the handler's; what gnet's Register and Enroll put into both is in Context.
//
// # What counts as life
//
// With ActivityRead, bytes that have arrived; OnTraffic that comes from Wake, with
// no new bytes, is no life. (Where the socket can't tell, which is with Unix sockets
// and on systems other than Linux, Wake is life while there are bytes that the
// handler has not consumed.) With ActivityReadWrite also bytes that were sent,
// which is known on Linux with TCP only. With ActivityManual only
// [keepalive.Touch], which takes any goroutine and a gnet.Conn. With ActivityKernel,
// bytes that have arrived, and OnTraffic is passed straight through; Unix sockets are
// kept as with ActivityRead.
//
// # Where things run
//
// Whether a connection is idle is decided in its own event loop, behind the reads
// that wait there, a few connections at a time so that the live ones don't wait
// when very many are closed. OnIdle is called there too, so it may write to the
// connection, and must not block.
package gnetkeepalive

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// RefusingHandler is what an event handler may be besides: where a connection may not
// stay, because there are too many (keepalive.ReasonFull) or the server is going down
// (keepalive.ReasonDrain), OnRefuse is asked for the last words to it. The handler
// hears nothing else of it.
type RefusingHandler interface {
	OnRefuse(c gnet.Conn, reason keepalive.Reason) (out []byte)
}

// Wrap returns an event handler for gnet.Run and gnet.NewClient that guards each
// connection with k and leaves the rest to inner. It may be used for several
// engines, at the same time or one after the other. k is the caller's to close,
// after the engines have stopped.
func Wrap(inner gnet.EventHandler, k *keepalive.Keeper) gnet.EventHandler {
	if inner == nil || k == nil {
		panic("gnetkeepalive: Wrap needs a handler and a Keeper")
	}
	return &handler{EventHandler: inner, keeper: k, loops: loopsOf(k)}
}

// handler passes OnBoot, OnShutdown and OnTick through. It starts nothing before
// there are connections, so a failed start of the engine leaves nothing behind.
type handler struct {
	gnet.EventHandler
	keeper *keepalive.Keeper
	loops  *loops
}

// guard is what a connection's SafeContext holds: 64 bytes. Its Seen, which only the
// event loop uses, is for a connection with Reads the number of bytes that the handler
// had not consumed after OnTraffic; for another what had been read when the socket was
// last asked, modulo 1<<32; and for one that is being closed what it has sent since.
type guard struct{ keepalive.Guard }

// Guarded is how keepalive.Touch finds the guard.
func (g *guard) Guarded() *keepalive.Guard { return &g.Guard }

// Due runs on a worker of the Keeper's.
func (g *guard) Due(k *keepalive.Keeper, conn any) {
	loopsOf(k).decideLater(g, conn.(gnet.Conn))
}

// Remote is keepalive.Located: only the event loop may ask for the address.
func (g *guard) Remote(ctx context.Context, conn any) net.Addr {
	c := conn.(gnet.Conn)
	found := make(chan net.Addr, 1)
	err := c.EventLoop().Execute(ctx, gnet.RunnableFunc(func(context.Context) error {
		var addr net.Addr
		if (silent{guard: g, conn: c}).isOpen() {
			addr = c.RemoteAddr()
		}
		found <- addr
		return nil
	}))
	for err == nil {
		select {
		case addr := <-found:
			return addr
		case <-ctx.Done():
			return nil
		case <-time.After(lostAfter): // a loop that goes down drops its tasks
			err = c.EventLoop().Execute(ctx, gnet.RunnableFunc(func(context.Context) error { return nil }))
		}
	}
	return nil
}

// refused is in the SafeContext of a connection that may not stay.
type refused struct{}

func (h *handler) OnOpen(c gnet.Conn) (out []byte, action gnet.Action) {
	if _, ok := c.LocalAddr().(*net.UDPAddr); ok {
		return h.EventHandler.OnOpen(c)
	}
	// Before the handler runs, which may already touch the connection, or close
	// it. SafeContext comes first, since it is where Due looks for the guard.
	g := new(guard)
	h.loops.enter(c.EventLoop())
	c.SetSafeContext(g)
	err := h.keeper.Guard(&g.Guard, c, keepalive.Origin{
		Remote:      c.RemoteAddr(),
		SocketTells: keepalive.SocketTells(uintptr(c.Fd())),
	})
	switch {
	case err == nil:
		if g.Reads() && !h.loops.looks.Load() {
			h.loops.looks.Store(true)
		}
	case errors.Is(err, keepalive.ErrFull):
		return h.refuse(c, keepalive.ReasonFull)
	case errors.Is(err, keepalive.ErrDraining):
		return h.refuse(c, keepalive.ReasonDrain)
	default: // the Keeper has been closed
		h.loops.leave(c.EventLoop())
		c.SetSafeContext(nil)
	}
	return h.EventHandler.OnOpen(c)
}

func (h *handler) refuse(c gnet.Conn, reason keepalive.Reason) (out []byte, action gnet.Action) {
	h.loops.leave(c.EventLoop())
	c.SetSafeContext(refused{})
	if inner, ok := h.EventHandler.(RefusingHandler); ok {
		out = inner.OnRefuse(c, reason)
	}
	return out, gnet.Close
}

func (h *handler) OnTraffic(c gnet.Conn) gnet.Action {
	if !h.loops.looks.Load() {
		return h.EventHandler.OnTraffic(c)
	}
	g, ok := c.SafeContext().(*guard)
	if ok && g.Reason() != 0 {
		return linger(c, g)
	}
	if !ok || !g.Reads() {
		return h.EventHandler.OnTraffic(c)
	}
	// More than was left over last time is something new. Where the handler
	// consumes bytes outside of OnTraffic this can miss some, which the socket
	// knows when it is asked. If it can't tell, it is better to take what was
	// left over for something new than to miss something.
	if n := uint32(c.InboundBuffered()); n > g.Seen || n > 0 && !g.Tells() {
		g.Heard()
	}
	action := h.EventHandler.OnTraffic(c)
	g.Seen = uint32(c.InboundBuffered())
	return action
}

func (h *handler) OnClose(c gnet.Conn, err error) gnet.Action {
	switch g := c.SafeContext().(type) {
	case *guard:
		return h.close(c, g, err)
	case refused:
		return gnet.None
	default:
		return h.EventHandler.OnClose(c, err)
	}
}

func (h *handler) close(c gnet.Conn, g *guard, err error) gnet.Action {
	released := h.keeper.Release(&g.Guard)
	reason := keepalive.ReasonPeer
	switch {
	case g.Reason() != 0:
		reason, err = g.Reason(), g.Reason()
	case err == nil:
		reason = keepalive.ReasonLocal
	}
	h.loops.leave(c.EventLoop())
	action := h.EventHandler.OnClose(c, err)
	if released || g.Reason() != 0 {
		h.keeper.Closed(&g.Guard, reason)
	}
	return action
}
