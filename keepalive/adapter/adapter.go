// Package adapter is for people who bring package keepalive to another framework, as packages
// keepalive for net and gnetkeepalive for gnet do. Programs that use a framework do not need
// it.
//
// An adapter keeps a [keepalive.Guard] for each connection, where keepalive.Of can find it:
// the connection has a method SafeContext() any that returns the guard, or NetConn leads to
// one that has. And it does five things:
//
//   - When a connection is opened, it calls [Guard]. If that returns an error, it closes the
//     connection, unless the error is [ErrClosed].
//   - When the program has read bytes, it calls [Heard], if [Reads] says so.
//   - When the Keeper calls Due, something is to be decided about a connection, most often
//     that its deadline has passed. The adapter calls [Decide], now or later: on the goroutine
//     that handles what the connection reads, behind what waits there. Until then a touch
//     saves the connection.
//   - When the Keeper calls End, it closes the connection, and then calls [Closed] with the
//     [Reason].
//   - When the connection is closed by somebody else, it calls [Release], and if that returns
//     true [Closed], with keepalive.ReasonPeer or keepalive.ReasonLocal.
//
// Package adaptertest has a test of all that, which every adapter should pass.
package adapter

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/seam"
)

// Adapter is what a Keeper needs of the connections of a framework. One adapter may stand
// for many connections: that of an event loop, for all of its connections. Any goroutine may
// call its methods, except for Peer and End.
type Adapter interface {
	// Due is called by a worker when something is to be decided about a connection. It must
	// not block for long. Decide is called once for each Due.
	Due(g *keepalive.Guard)

	// Do runs f at a place from which Peer may be called, and returns after f, or an error if
	// ctx is done first, or the connection is gone.
	Do(ctx context.Context, g *keepalive.Guard, f func()) error

	// Control calls f with the descriptor of the connection's socket, which stays open during
	// the call. It is called by Decide. An error says that there is no socket to ask.
	Control(g *keepalive.Guard, f func(fd uintptr)) error

	// Peer returns the address of the peer, or nil if that is not known. It is called by Closed,
	// and by a function that Do runs.
	Peer(g *keepalive.Guard) net.Addr

	// End closes the connection for its Reason, after its farewell, in the given mode, and
	// within timeout. It is called by Decide and must not block; it may go on elsewhere. In the
	// end it calls Closed.
	End(g *keepalive.Guard, farewell []byte, mode keepalive.CloseMode, timeout time.Duration)
}

var funcs = seam.Get[keepalive.Keeper, keepalive.Guard, keepalive.Reason, interface {
	Due(g *keepalive.Guard)
	Do(ctx context.Context, g *keepalive.Guard, f func()) error
	Control(g *keepalive.Guard, f func(fd uintptr)) error
	Peer(g *keepalive.Guard) net.Addr
	End(g *keepalive.Guard, farewell []byte, mode keepalive.CloseMode, timeout time.Duration)
}]()

// MaxLinger is how many bytes a peer may still send after our side was closed, with
// keepalive.CloseHalf.
var MaxLinger = funcs.MaxLinger

// Guard begins to guard a connection: g is the adapter's own, conn is the connection as the
// program knows it, and remote the address of its peer, or nil if that is not known yet; see
// [Identify]. tells is what [SocketTells] says of its socket.
//
// It returns keepalive.ReasonFull, perhaps wrapped, if there are too many connections, in all
// or of this peer, and keepalive.ReasonDrain if the Keeper is draining: then the adapter closes
// the connection. Any other error says that the Keeper has been closed: then the connection
// stays open, unguarded.
func Guard(k *keepalive.Keeper, g *keepalive.Guard, conn any, a Adapter, remote net.Addr, tells bool) error {
	return funcs.Guard(k, g, conn, a, remote, tells)
}

// IsRefused reports whether an error of Guard says that the connection is to be closed, and
// for what reason.
func IsRefused(err error) (reason keepalive.Reason, refused bool) {
	refused = errors.As(err, &reason)
	return reason, refused
}

// Keeper returns the Keeper that guards a connection, or has guarded it.
func Keeper(g *keepalive.Guard) *keepalive.Keeper { return funcs.Keeper(g) }

// Conn returns the connection as the program knows it.
func Conn(g *keepalive.Guard) any { return funcs.Conn(g) }

// Scratch returns 32 bits of a guard that are the adapter's to use. They are 0 at first.
func Scratch(g *keepalive.Guard) *uint32 { return funcs.Scratch(g) }

// Heard says that bytes were read: life, unless only touches are, but no heartbeat of the
// program's, see keepalive.Rate. Call it before the program sees the bytes: it also looks at the
// clock, so that touches are exact. It takes some 30 ns.
func Heard(g *keepalive.Guard) { funcs.Heard(g) }

// Reads reports whether the adapter is to call Heard for bytes that are read.
func Reads(g *keepalive.Guard) bool { return funcs.Reads(g) }

// Tells reports whether the socket knows when bytes last arrived: then the adapter may miss
// some of them.
func Tells(g *keepalive.Guard) bool { return funcs.Tells(g) }

// SocketTells reports whether a socket knows when bytes last arrived. On Linux, sockets of TCP
// do.
func SocketTells(fd uintptr) bool { return funcs.SocketTells(fd) }

// Reason returns why the Keeper closes the connection, after it has called End, or 0.
func Reason(g *keepalive.Guard) keepalive.Reason { return funcs.Reason(g) }

// Decide decides about a connection for which Due was called. It may call functions of the
// program and methods of the adapter. It must not be called for the same connection by two
// goroutines at the same time, unless one of them waits for the program's OnIdle.
func Decide(g *keepalive.Guard) { funcs.Decide(g) }

// Identify says where the peer of a connection is, if Guard did not know it. It reports false
// if there are too many connections of the same peer: then the adapter closes the connection.
func Identify(g *keepalive.Guard, remote net.Addr) bool { return funcs.Identify(g, remote) }

// Release ends the guarding of a connection that is closed for another reason than the
// Keeper's. It reports false if the guarding has ended before.
func Release(g *keepalive.Guard) bool { return funcs.Release(g) }

// Closed says that a connection has been closed. It must be called once for each connection:
// after End, or after Release has returned true. It tells the program's OnClose.
func Closed(g *keepalive.Guard, reason keepalive.Reason) { funcs.Closed(g, reason) }

// Lose ends the guarding of a connection in which nothing leads to the guard any more, because
// somebody has overwritten it. Nobody can have touched the connection, and it is not closed.
func Lose(g *keepalive.Guard) { funcs.Lose(g) }
