package keepalive

import (
	"net"

	"github.com/heartwheel-go/heartwheel/pool"
)

// Guard is the deadline of one connection. Programs don't need to see it: they
// say [Touch] with the connection. Adapters for frameworks other than net make
// it a part of what they keep for a connection, and return it from their Guarded
// method.
//
// The zero Guard guards nothing. It must not be copied. Touch may be called by
// several goroutines at the same time.
type Guard struct {
	member pool.Member[any]

	// granted is how often in a row the connection was given more time because
	// of bytes that nobody had read, and on which tick that ends. Only expire
	// uses it.
	granted rounds
}

// Guarded is a connection, or what stands for it, that has a Guard.
type Guarded interface {
	Guarded() *Guard
}

// Touch moves the deadline to the timeout from now. It reports whether the
// connection will live until then; false means that it had been closed, or its
// expiry been decided, or that nobody guards it.
func (g *Guard) Touch() bool { return g.member.Touch() }

// Touch says that the peer of a connection lives: its deadline is the Keeper's
// timeout from now. conn is a connection that came from [Keeper.Listener] or
// [Keeper.Conn], or a *tls.Conn over one, or a gnet.Conn whose event handler was
// wrapped by gnetkeepalive.
//
// It reports whether the connection will live until the new deadline. False
// means that it had been closed, or its expiry been decided, or that nobody
// guards it. It may be called by several goroutines at the same time, also for
// connections that are long closed, and takes some nanoseconds.
func Touch(conn any) bool {
	if c, ok := conn.(*socketHalfConn); ok { // of TCP: without a detour
		return c.guard.Touch()
	}
	if c, ok := conn.(interface{ SafeContext() any }); ok { // of gnet
		if g, ok := c.SafeContext().(Guarded); ok {
			return g.Guarded().Touch()
		}
	}
	g := guardOf(conn)
	return g != nil && g.Touch()
}

// maxLayers bounds how deep find looks into a connection that says that it is
// inside itself.
const maxLayers = 8

// find returns what has the guard of a connection, or nil.
func find(conn any) Guarded {
	for range maxLayers {
		switch c := conn.(type) {
		case Guarded: // ours, or a gnet.Conn's SafeContext
			return c
		case interface{ SafeContext() any }: // a gnet.Conn
			conn = c.SafeContext()
		case interface{ NetConn() net.Conn }: // a *tls.Conn
			conn = c.NetConn()
		default:
			return nil
		}
	}
	return nil
}

func guardOf(conn any) *Guard {
	if c := find(conn); c != nil {
		return c.Guarded()
	}
	return nil
}
