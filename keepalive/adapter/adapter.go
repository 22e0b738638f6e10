// Package adapter is for authors of adapters: they bring package keepalive to another
// framework, as package gnetkeepalive does for gnet. Programs with a framework do not need it.
//
// # Connections
//
// An adapter has a [keepalive.Guard] for each connection, and the program finds it with
// keepalive.Of until OnClose has returned. So the connection, as the program knows it, is
// comparable and leads to its guard in one of three ways: a method SafeContext() any for the
// guard, a method NetConn() net.Conn for a connection inside, or a function given to [Find]. A
// guard must not be copied or used again.
//
// # Calls
//
// The adapter calls these functions of the package:
//
//   - [Guard] for a new connection, before the program hears of it. After an error the adapter
//     asks [IsRefused], and closes a refused connection.
//   - [Heard] when bytes of the peer are read, if [Reads], and when bytes are written, if
//     [Writes].
//   - [Decide] once for each call of Due, behind all bytes already received: on the goroutine,
//     or in the event loop, with the connection's reads. A touch before Decide saves the
//     connection, so a busy program closes no living peer.
//   - [Release] when anybody but the Keeper closes the connection. If the Keeper has been
//     faster, Release returns false: End has been called, or is about to be. [Reason] is 0 only
//     if the Keeper has been closed.
//   - [Closed] when the connection is closed, once: after End with the [Reason], or after a
//     Release of true with keepalive.ReasonPeer or keepalive.ReasonLocal.
//
// The Keeper calls the methods of [Adapter].
//
// Between End and Closed a connection is leaving. It may send its farewell and linger. What the
// peer still sends is not for the program. A program that closes the connection meanwhile must
// not cut the farewell off.
//
// # A third adapter
//
// Package udpkeepalive is a whole adapter, for sessions over UDP, with no other access to package
// keepalive than this one. Package adaptertest is the conformance suite of all adapters.
package adapter

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/seam"
)

// Adapter is the Keeper's way to the connections of a framework. One adapter may stand for one
// connection, or for all connections of an event loop. Any goroutine may call Due and Do. The
// Keeper calls Control and End during Decide, and Peer during Closed and in Do.
type Adapter interface {
	// Due says that something is to be decided about a connection, most often because its
	// deadline has passed. The adapter calls Decide, now or later. Due must not block for long.
	// If a program reads on any goroutine, as with net, Due may call Decide: the Keeper asks the
	// socket for unread bytes.
	Due(g *keepalive.Guard)

	// Do runs f at a place for Decide and Peer, such as the connection's event loop, and returns
	// after f. It returns an error if ctx is done first, or if the connection is gone and f does
	// not run.
	Do(ctx context.Context, g *keepalive.Guard, f func()) error

	// Control calls f with the descriptor of the connection's socket. The descriptor stays open
	// during the call. An error says that the connection has no socket of its own. Then
	// keepalive.ActivityKernel is ActivityRead, and ReadIdle, WriteIdle and Rate.MinBytes of the
	// keepalive.Config have no effect.
	Control(g *keepalive.Guard, f func(fd uintptr)) error

	// Peer returns the address of the peer, or nil if it is not known.
	Peer(g *keepalive.Guard) net.Addr

	// End closes the connection for its Reason: it writes the farewell, closes in the given mode
	// as far as the framework can, and calls Closed. All that may take as long as timeout. End
	// must not block. It may go on elsewhere, and has no effect on a connection already closed.
	End(g *keepalive.Guard, farewell []byte, mode keepalive.CloseMode, timeout time.Duration)
}

// Buffering is an Adapter for a framework that reads from the socket ahead of the program. The
// Keeper takes the bytes in its buffer for unread ones, as those in the socket.
type Buffering interface {
	Adapter

	// Buffered returns how many bytes of the peer the framework has read, and the program has
	// not. The Keeper calls it after Control. It may be called at any time, and must not block.
	Buffered(g *keepalive.Guard) int
}

var funcs = seam.Get[keepalive.Keeper, keepalive.Guard, keepalive.Reason, interface {
	Due(g *keepalive.Guard)
	Do(ctx context.Context, g *keepalive.Guard, f func()) error
	Control(g *keepalive.Guard, f func(fd uintptr)) error
	Peer(g *keepalive.Guard) net.Addr
	End(g *keepalive.Guard, farewell []byte, mode keepalive.CloseMode, timeout time.Duration)
}]()

// MaxLinger is how many bytes the adapter takes from a peer after its own side is closed, with
// keepalive.CloseHalf. Then it closes the connection.
var MaxLinger = funcs.MaxLinger

// Made reports whether keepalive.New has made a Keeper. Nil and the zero Keeper can keep nobody: a function that takes a
// Keeper refuses both at once, or the first connection would. Guard panics for them.
func Made(k *keepalive.Keeper) bool { return funcs.Made(k) }

// Guard begins to guard a connection with the zero Guard g. conn is the connection as the
// program knows it, and must already lead to g. remote is the address of the peer, or nil if
// the adapter does not know it yet, see [Identify]. tells is the answer of [SocketTells], or
// false without a socket.
//
// An error means that the connection is not guarded. It wraps keepalive.ReasonFull if there
// are too many connections, in all or of this peer, and keepalive.ReasonDrain if the Keeper is
// draining: the adapter closes the connection, without [Release] and [Closed]. After any other
// error the Keeper is closed, and the connection stays open.
func Guard(k *keepalive.Keeper, g *keepalive.Guard, conn any, a Adapter, remote net.Addr, tells bool) error {
	return funcs.Guard(k, g, conn, a, remote, tells)
}

// IsRefused reports whether the adapter has to close a connection after an error of [Guard],
// and for what reason.
func IsRefused(err error) (reason keepalive.Reason, refused bool) {
	refused = errors.As(err, &reason)
	return reason, refused
}

// Refuse reports whether [Guard] would refuse any connection now, and for what reason: with
// keepalive.ReasonFull or keepalive.ReasonDrain. A refusal is counted as one of Guard. Refuse needs no
// connection and no memory, so it is for adapters that make a connection out of a packet. Guard
// may still refuse after a false. Any goroutine may call it.
func Refuse(k *keepalive.Keeper) (reason keepalive.Reason, refused bool) {
	reason = funcs.Refuse(k)
	return reason, reason != 0
}

// Keeper returns the Keeper of a connection, also after its end.
func Keeper(g *keepalive.Guard) *keepalive.Keeper { return funcs.Keeper(g) }

// Logger returns the Logger of a Keeper's Config, or a silent one if that is nil.
func Logger(k *keepalive.Keeper) *slog.Logger { return funcs.Logger(k) }

// Conn returns the connection as the program knows it.
func Conn(g *keepalive.Guard) any { return funcs.Conn(g) }

// Scratch returns 32 bits of a guard for the adapter's own use, at first 0.
func Scratch(g *keepalive.Guard) *uint32 { return funcs.Scratch(g) }

// Heard says that bytes were read or written. They are life, except with
// keepalive.ActivityManual, but no heartbeat, see keepalive.Rate. The adapter calls Heard before
// the program sees the bytes: Heard looks at the clock, so a touch of the program is exact. It
// takes some 30 ns. Any goroutine may call it, also after the end of the connection.
func Heard(g *keepalive.Guard) { funcs.Heard(g) }

// Reads reports whether the adapter has to call Heard for bytes from the peer. It takes a
// nanosecond, and the answer may change.
func Reads(g *keepalive.Guard) bool { return funcs.Reads(g) }

// Writes is Reads for bytes to the peer: with keepalive.ActivityReadWrite, if the socket does
// not tell of acknowledgements.
func Writes(g *keepalive.Guard) bool { return funcs.Writes(g) }

// Tells returns the tells of Guard. If it is true, the adapter may miss some bytes: the Keeper
// asks the socket for them.
func Tells(g *keepalive.Guard) bool { return funcs.Tells(g) }

// SocketTells reports whether a socket knows when bytes last arrived. On Linux, sockets of TCP
// do.
func SocketTells(fd uintptr) bool { return funcs.SocketTells(fd) }

// Reason returns the Keeper's reason to close a connection, set before End, or 0.
func Reason(g *keepalive.Guard) keepalive.Reason { return funcs.Reason(g) }

// Decide decides about a connection after Due. It calls functions of the program, and methods
// of the adapter. While one goroutine decides, Decide on another one returns at once, and Due
// is called once more.
func Decide(g *keepalive.Guard) { funcs.Decide(g) }

// Identify gives the address of a peer after a Guard without it. It reports false if there are
// too many connections of the same peer. Then the adapter calls [Release], and if that returns
// true closes the connection and calls [Closed] with keepalive.ReasonFull.
func Identify(g *keepalive.Guard, remote net.Addr) bool { return funcs.Identify(g, remote) }

// Release ends the guarding of a connection without the Keeper. It reports false if the
// guarding has ended before. Then [Reason] is known, or 0 after Keeper.Close. Any goroutine may
// call it.
func Release(g *keepalive.Guard) bool { return funcs.Release(g) }

// Closed says that a connection is closed, and calls the program's OnClose. The adapter calls
// it once for each guarded connection, where Peer may be called.
func Closed(g *keepalive.Guard, reason keepalive.Reason) { funcs.Closed(g, reason) }

// Lose ends the guarding of a connection without a way to its guard, because the program has
// overwritten it. Nobody can have touched the connection, so it stays open. Lose has no effect
// after Release and End.
func Lose(g *keepalive.Guard) { funcs.Lose(g) }

// Upgrade is for a protocol above a connection of net, with a ping for its peer, such as
// WebSocket. From now on only Touch is life of this connection, and the Upgrade is a touch. The
// connection has a probe and a farewell of its own:
//
//   - probe takes the place of keepalive.Probing.Send, also if that is nil. Its times are those
//     of keepalive.Probing. It must not block.
//   - farewell takes the place of keepalive.Closing.Farewell. It has a goroutine of its own, and
//     may write through all layers above the connection, until it returns or the deadline has
//     passed. Meanwhile the program's own writes still work, and Close has no effect. The context
//     of the connection is done after it, or before that when a Read, a Write or a Close of the connection
//     tells the program of the end. OnClose and Drain wait for its return. Nil means none.
//     It is not called on gnet.
//
// A peer may still be busy with the bytes in front of a probe. So for TCP on Linux, the peer is
// not silent while bytes wait to be sent, as long as it takes some of them.
//
// Upgrade returns keepalive.ErrNotGuarded if the connection is not guarded, or not any more.
func Upgrade(g *keepalive.Guard, probe func() error, farewell func(reason keepalive.Reason, deadline time.Time)) error {
	return funcs.Upgrade(g, probe, farewell)
}

// CountBacklog says whether a peer is alive while bytes wait to be sent to it, as long as it takes some of
// them. It is for protocols whose peers have nothing to say while they take a long answer, such as HTTP, and for
// TCP on Linux. A new connection is without, and one with an Upgrade has it always. Any goroutine may call it.
func CountBacklog(g *keepalive.Guard, counts bool) { funcs.Backlog(g, counts) }

// Exchanges is for a protocol of requests and answers above a connection, such as HTTP. Neither a drain nor a
// maximum age ends the connection in the middle of an exchange, unless the context of the drain or Age.Grace
// is over. ending is called once, when the next exchange should be the last one, and must not block. From
// then on, an end by the program has the reason of the Keeper. A nil ending says that the connection has no
// exchanges any more, say before an upgrade. The program has 1.5 s to say in its protocol what comes next, and a drain
// and an age wait for that long, or until Upgrade. Any goroutine may call Exchanges.
func Exchanges(g *keepalive.Guard, ending func()) { funcs.Exchanges(g, ending) }

// Exchange says that exchanges of a connection with Exchanges are under way, or that none is. After the last
// one, and after the call of ending, the connection stays for 1.5 s more: time for another request, or for a
// word in its protocol. If bytes have come by then, the connection stays as long as they go on coming with pauses of less than
// 1.5 s, or see Begins, but for 10 s at most. Any goroutine may call Exchange.
func Exchange(g *keepalive.Guard, underWay bool) { funcs.Exchange(g, underWay) }

// Begins says whether bytes of the peer begin the next exchange, as in HTTP/1.1: those read after the last Exchange of
// true. Then the connection does not end before that exchange, unless it takes more than 10 s to begin, or the
// context of the drain or Age.Grace is over. In HTTP/2, and in a handshake, bytes may be anything else. A new connection
// is without. It is for connections of net. Any goroutine may call Begins.
//
// A program that is told by Drain may drop an exchange that begins later. So Drain waits for connections with Begins, also
// during an exchange: another one may begin behind it. Say false during one that is the last.
func Begins(g *keepalive.Guard, begins bool) { funcs.Begins(g, begins) }

// Drain is keepalive.Keeper.Drain without a spread. It refuses new connections, and tells all others. Then it waits for
// connections with Begins. Those without an exchange end 1.5 s later, unless bytes have come. For exchanges under way, or
// without all of their bytes, and for the first ones of new connections, Drain waits for 1.5 s at most. If ctx has a
// deadline, that is a third of its time at most, and two thirds for all of this. Then Drain calls told: from then on the
// program may close connections without an exchange. It waits for all connections after that.
func Drain(ctx context.Context, k *keepalive.Keeper, told func()) error {
	return funcs.Drain(ctx, k, told)
}

// Find gives keepalive.Of a way to the guards of a framework without a place for them: f returns
// the guard of a connection, or nil for connections it does not know. It is called for all kinds
// of connections, and by any goroutine. Call Find when the program is initialized.
func Find(f func(conn any) *keepalive.Guard) { funcs.Find(f) }
