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
	"errors"
	"net"
	"sync/atomic"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// FullHandler is what an event handler may be besides: where there are as many
// connections as [keepalive.Config] allows, OnFull is asked for the last words to
// one more, which is then closed. The handler hears nothing else of it.
type FullHandler interface {
	OnFull(c gnet.Conn) (out []byte)
}

// Wrap returns an event handler for gnet.Run and gnet.NewClient that guards each
// connection with k and leaves the rest to inner. It may be used for several
// engines, at the same time or one after the other. k is the caller's to close,
// after the engines have stopped.
func Wrap(inner gnet.EventHandler, k *keepalive.Keeper) gnet.EventHandler {
	if inner == nil || k == nil {
		panic("gnetkeepalive: Wrap needs a handler and a Keeper")
	}
	return &handler{EventHandler: inner, keeper: k, loops: loops{keeper: k}}
}

// handler passes OnBoot, OnShutdown and OnTick through. It starts nothing before
// there are connections, so a failed start of the engine leaves nothing behind.
type handler struct {
	gnet.EventHandler
	keeper *keepalive.Keeper
	loops  loops

	// looks says that OnTraffic has to look for life: that there was a connection
	// that is touched for what is read. With ActivityManual there is none, and with
	// ActivityKernel only where a socket can't tell.
	looks atomic.Bool
}

// guard is what a connection's SafeContext holds: 64 bytes.
type guard struct {
	keepalive.Guard
	loop *loop

	// What follows is used in the event loop only.
	expired bool // to be closed for its silence
	tells   bool // the socket knows when bytes last arrived
	reads   bool // what is read touches it, see Keeper.Reads

	// seen is a number of bytes: with reads, those that the handler had not consumed
	// after OnTraffic; without, those that had been read when the socket was last
	// asked, modulo 1<<32.
	seen uint32
}

// Guarded is how keepalive.Touch finds the guard.
func (g *guard) Guarded() *keepalive.Guard { return &g.Guard }

// Due runs on a worker of the Keeper's.
func (g *guard) Due(conn any) { g.loop.decideLater(g, conn.(gnet.Conn)) }

// rejected is in the SafeContext of a connection that was one too many.
type rejected struct{}

func (h *handler) OnOpen(c gnet.Conn) (out []byte, action gnet.Action) {
	if _, ok := c.LocalAddr().(*net.UDPAddr); ok {
		return h.EventHandler.OnOpen(c)
	}
	// Before the handler runs, which may already touch the connection, or close
	// it. SafeContext comes first, since it is where Due looks for the guard.
	g := &guard{loop: h.loops.enter(c.EventLoop()), tells: keepalive.SocketTells(uintptr(c.Fd()))}
	if g.reads = h.keeper.Reads(c, g.tells); g.reads && !h.looks.Load() {
		h.looks.Store(true)
	}
	c.SetSafeContext(g)
	if err := h.keeper.Guard(&g.Guard, c); err != nil {
		h.loops.leave(g.loop)
		if errors.Is(err, keepalive.ErrFull) {
			return h.reject(c)
		}
		c.SetSafeContext(nil) // the Keeper has been closed
	}
	return h.EventHandler.OnOpen(c)
}

func (h *handler) reject(c gnet.Conn) (out []byte, action gnet.Action) {
	c.SetSafeContext(rejected{})
	if full, ok := h.EventHandler.(FullHandler); ok {
		out = full.OnFull(c)
	}
	return out, gnet.Close
}

func (h *handler) OnTraffic(c gnet.Conn) gnet.Action {
	if !h.looks.Load() {
		return h.EventHandler.OnTraffic(c)
	}
	g, ok := c.SafeContext().(*guard)
	if !ok || !g.reads {
		return h.EventHandler.OnTraffic(c)
	}
	// More than was left over last time is something new. Where the handler
	// consumes bytes outside of OnTraffic this can miss some, which the socket
	// knows when it is asked. If it can't tell, it is better to take what was
	// left over for something new than to miss something.
	if n := uint32(c.InboundBuffered()); n > g.seen || n > 0 && !g.tells {
		g.Touch()
	}
	action := h.EventHandler.OnTraffic(c)
	g.seen = uint32(c.InboundBuffered())
	return action
}

func (h *handler) OnClose(c gnet.Conn, err error) gnet.Action {
	switch g := c.SafeContext().(type) {
	case *guard:
		return h.close(c, g, err)
	case rejected:
		return gnet.None
	default:
		return h.EventHandler.OnClose(c, err)
	}
}

func (h *handler) close(c gnet.Conn, g *guard, err error) gnet.Action {
	_, released := h.keeper.Release(&g.Guard)
	reason := keepalive.ReasonPeer
	switch {
	case g.expired:
		err, reason = keepalive.ErrIdleTimeout, keepalive.ReasonIdle
	case err == nil:
		reason = keepalive.ReasonLocal
	}
	h.loops.leave(g.loop)
	action := h.EventHandler.OnClose(c, err)
	if released || g.expired {
		h.keeper.Closed(c, reason)
	}
	return action
}
