// Package adapter is for authors of adapters: they bring package keepalive to another
// framework, as package gnetkeepalive does for gnet. Programs with a framework do not need it.
//
// An adapter implements [Adapter], and the Keeper [Binding] and [Binder]: package keepalive
// imports this one, as database/sql imports its driver package.
//
// # Connections
//
// An adapter has a keepalive.Guard for each connection, and the program finds it with
// keepalive.Of until OnClose has returned. So the connection, as the program knows it, is
// comparable and leads to its guard in one of three ways: a method SafeContext() any for the
// guard, a method NetConn() net.Conn for a connection inside, or a function given to [Find]. A
// guard must not be copied or used again.
//
// # Calls
//
// The adapter calls Keeper.Bind for a new connection, before the program hears of it. After an error
// that is a keepalive.Reason it closes the connection. Then it calls these methods of Guard.Binding:
//
//   - Read when bytes of the peer are read, and Wrote when bytes are written.
//   - Decide once for each call of Due, behind all bytes already received: on the goroutine,
//     or in the event loop, with the connection's reads. A touch before Decide saves the
//     connection, so a busy program closes no living peer.
//   - Release when anybody but the Keeper closes the connection.
//   - Closed when the connection is closed, once: after End, or after Release.
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
	"log/slog"
	"net"
	"os"
	"time"
)

// Adapter is the Keeper's way to the connections of a framework. One adapter may stand for one
// connection, or for all connections of an event loop. Any goroutine may call Due and Do. The
// Keeper calls Control in Keeper.Bind and during Decide, End during Decide, and Peer during Closed and in Do.
type Adapter interface {
	// Due says that a connection needs a decision, most often because its
	// deadline has passed. The adapter calls Decide, now or later. Due must not block for long.
	// If a program reads on any goroutine, as with net, Due may call Decide: the Keeper asks the
	// socket for unread bytes.
	Due(b Binding)

	// Do runs f at a place for Decide and Peer, such as the connection's event loop, and returns
	// after f. It returns an error if ctx is done first, or if the connection is gone and f does
	// not run.
	Do(ctx context.Context, b Binding, f func()) error

	// Control calls f with the descriptor of the connection's socket. The descriptor stays open
	// during the call. An error says that the connection has no socket of its own. Then
	// keepalive.ActivityKernel is ActivityRead, and ReadIdle, WriteIdle, WriteStall and Rate.MinBytes of the
	// keepalive.Config have no effect.
	Control(b Binding, f func(fd uintptr)) error

	// Peer returns the address of the peer, or nil if it is not known.
	Peer(b Binding) net.Addr

	// End closes the connection, as far as the framework can, and calls Closed. All that may take as long as
	// e.Timeout. End must not block. It may go on elsewhere, and has no effect on a connection already closed.
	End(b Binding, e Ending)
}

// Buffering is an Adapter for a framework that reads from the socket ahead of the program. The
// Keeper takes the bytes in its buffer for unread ones, as those in the socket.
type Buffering interface {
	Adapter

	// Buffered returns how many bytes of the peer the framework has read, and the program has
	// not. The Keeper calls it after Control. It may be called at any time, and must not block.
	Buffered(b Binding) int
}

// Queueing is an Adapter for a framework that keeps bytes of the program until the socket has room for them. They count
// for Config.MaxUnsent.
type Queueing interface {
	Adapter

	// Queued returns how many bytes of the program the framework has not given to the socket. The Keeper calls it
	// after Control, in the same places.
	Queued(b Binding) int
}

// Ending is how the Keeper wants a connection closed.
type Ending struct {
	Reason   net.Error     // a keepalive.Reason
	Farewell []byte        // to be written first, or nil
	Mode     Mode          // of the close
	Timeout  time.Duration // for all of it
}

// Mode is a keepalive.CloseMode.
type Mode int

// The modes.
const (
	Graceful Mode = iota // keepalive.CloseGraceful
	Half                 // keepalive.CloseHalf
	Reset                // keepalive.CloseReset
)

// MaxLinger is how many bytes the adapter takes from a peer after its own side is closed, with
// Half. Then it closes the connection.
const MaxLinger = 4 << 20

// Binding is what an adapter calls for one connection: a keepalive.Guard after Keeper.Bind. Guard.Binding returns it,
// and always the same one. Any goroutine may call the methods, also after the end of the connection, except where one
// says more.
type Binding interface {
	// Conn returns the connection as the program knows it.
	Conn() any

	// Scratch returns 32 bits for the adapter's own use, at first 0. The Keeper does not guard them.
	Scratch() *uint32

	// Tells reports whether the socket knows when bytes last arrived. On Linux, sockets of TCP do. Then the adapter may
	// miss some bytes: the Keeper asks the socket for them.
	Tells() bool

	// Read says that bytes of the peer were read. They are life, except with keepalive.ActivityManual and
	// ActivityKernel, but no heartbeat, see keepalive.Rate. The adapter calls Read before the program sees the bytes: it
	// looks at the clock, so a touch of the program is exact. It takes some 30 ns.
	Read()

	// Wrote is Read for bytes to the peer: they are life with keepalive.ActivityReadWrite, if the socket does not tell
	// of acknowledgements.
	Wrote()

	// Header says that the connection begins with size bytes which are no life of its peer: the header of a proxy. A
	// negative size says that its end has not come, and then no bytes are life. Call Header before Read, and
	// Read for bytes behind the header only.
	Header(size int)

	// Identify says who the peer of a connection is if Keeper.Bind got no address, say since it stands in a header. It returns
	// a keepalive.ReasonFull if there are too many connections of the peer: then the guarding has ended, OnClose
	// has been told, and the adapter closes the connection, without Release and Closed. Otherwise it returns nil. Call it
	// once, and not from two goroutines at the same time.
	Identify(remote net.Addr) net.Error

	// Decide settles what Due was called for. It calls functions of the program, and methods of the adapter. While one
	// goroutine is in it, Decide on another one returns at once, and Due is called once more.
	Decide()

	// Reason returns the Keeper's reason to close the connection, a keepalive.Reason set before End, or nil.
	Reason() net.Error

	// Release ends the guarding of a connection without the Keeper. It reports false if the guarding has ended before:
	// End has been called, or is about to be, for the Reason, which is nil only if the Keeper has been closed.
	Release() bool

	// Closed says that the connection is closed, and calls the program's OnClose, where Peer may be called. The
	// reason is that of End. After a Release of true, it is keepalive.ReasonPeer if the peer has closed the connection,
	// or it broke, and otherwise keepalive.ReasonLocal. The adapter calls Closed once, and not if Release has returned
	// false without a Reason.
	Closed(byPeer bool)

	// Move says that the peer has another address from now on. Room.MaxPerKey counts the connection for that one. If it
	// has too many already, Move returns an error that wraps keepalive.ReasonFull, counts a refusal, and changes nothing.
	// It returns keepalive.ErrNotGuarded if the connection is not guarded, or not any more. One goroutine at a time may
	// call it.
	Move(remote net.Addr) error

	// Lose ends the guarding of a connection without a way to its guard, because the program has
	// overwritten it. Nobody can have touched the connection, so it stays open. Lose has no effect
	// after Release and End.
	Lose()

	Protocol
}

// Protocol is what a protocol above a connection calls.
type Protocol interface {
	// Upgrade is for a protocol above a connection of net, with a ping for its peer, such as
	// WebSocket. From now on only Touch is life of this connection, and the Upgrade is a touch. The
	// connection has a probe and a farewell of its own:
	//
	//   - probe takes the place of keepalive.Probing.Send, also if that is nil. Its times are those
	//     of keepalive.Probing. It must not block.
	//   - farewell takes the place of keepalive.Closing.Farewell. Its reason is a keepalive.Reason. It has a goroutine of
	//     its own, and may write through all layers above the connection, until it returns or the deadline has
	//     passed. Meanwhile the program's own writes still work, and Close has no effect. The context
	//     of the connection is done after it, or before that when a Read, a Write or a Close of the connection
	//     tells the program of the end. OnClose and Drain wait for its return. Nil means none.
	//     It is not called on gnet.
	//
	// A peer may still be busy with the bytes in front of a probe. So for TCP on Linux, the peer is
	// not silent while bytes wait to be sent, as long as it takes some of them.
	//
	// Upgrade returns keepalive.ErrNotGuarded if the connection is not guarded, or not any more.
	Upgrade(probe func() error, farewell func(reason net.Error, deadline time.Time)) error

	// Hold adds to the holds of the connection, see keepalive.Guard.Hold: 1 holds it, and -1 ends one of them.
	Hold(by int32)

	// CountBacklog says whether a peer is alive while bytes wait to be sent to it, as long as it takes some of
	// them. It is for protocols whose peers have nothing to say while they take a long answer, such as HTTP, and for
	// TCP on Linux. A new connection is without, and one with an Upgrade has it always.
	CountBacklog(counts bool)

	// Exchanges is for a protocol of requests and answers above a connection of net, such as HTTP. Neither a drain nor a
	// maximum age ends the connection in the middle of an exchange, unless the context of the drain or Age.Grace
	// is over. ending is called once, when the next exchange should be the last one, and must not block. From
	// then on, an end by the program has the reason of the Keeper. A nil ending says that the connection has no
	// exchanges any more, say before an upgrade. The program has 1.5 s to say in its protocol what comes next, and a drain
	// and an age wait for that long, or until Upgrade.
	//
	// During Binder.Drain, and for keepalive.ReasonDrain, a connection with exchanges gets no farewell and a Graceful close:
	// the program closes the others itself. Between two exchanges the Keeper calls closeLayers before that. It says in the layers
	// above, such as TLS, that the connection ends, and may take Closing.Timeout: it is most often the Close of the
	// outermost one. Nil means that there is no layer.
	Exchanges(ending func(), closeLayers func() error)

	// Exchange says that exchanges of a connection with Exchanges are under way, or that none is. After the last
	// one, and after the call of ending, the connection stays for 1.5 s more: time for another request, or for a
	// word in its protocol. If bytes have come by then, the connection stays as long as they go on coming with pauses of
	// less than 1.5 s, or see Begins, but for 10 s at most.
	Exchange(underWay bool)

	// Begins says whether bytes of the peer begin the next exchange, as in HTTP/1.1: those read after the last Exchange
	// of true. Then the connection does not end before that exchange, unless it takes more than 10 s to begin, or the
	// context of the drain or Age.Grace is over. In HTTP/2, and in a handshake, bytes may be anything else. A new
	// connection is without. It is for connections of net.
	//
	// A program that is told by Binder.Drain may drop an exchange that begins later. So Drain waits for connections with
	// Begins, also during an exchange: another one may begin behind it. Say false during one that is the last.
	Begins(begins bool)
}

// Binder is what an adapter calls for a keepalive.Keeper. Keeper.Binder returns it. Any goroutine may call the methods.
type Binder interface {
	// Refuse returns the reason, a keepalive.Reason, if Keeper.Bind would refuse any connection now: there are too many,
	// or the Keeper is draining. A refusal is counted as one of Bind. Refuse needs no connection and no memory, so it is
	// for adapters that make a connection out of a packet. Bind may still refuse after a nil.
	Refuse() net.Error

	// LastWords returns what keepalive.Config.OnRefuse says to a connection that Bind has refused, or nil.
	LastWords(conn any, reason net.Error) []byte

	// SayLastWords writes them to the socket of that connection when its peer has said something, or has already, or after half
	// of keepalive.Closing.Timeout. It drops what the peer sends, and closes c when the peer has closed the connection, or
	// after keepalive.Closing.Timeout. c is a descriptor of its own. SayLastWords is for Unix systems.
	SayLastWords(c *os.File, words []byte, asked bool)

	// Logger returns the Logger of the keepalive.Config, or a silent one if that is nil.
	Logger() *slog.Logger

	// Drain is Keeper.Drain without a spread. It refuses new connections, and tells all others. Then it waits for
	// connections with Begins, see Protocol, until their end begins: 1.5 s later without an exchange, unless bytes have come. For exchanges
	// under way, or without all of their bytes, and for the first ones of new connections, Drain waits for 1.5 s at most.
	// If ctx has a deadline, that is a third of its time at most, and two thirds for all of this. Then Drain calls told:
	// from then on the program may close connections without an exchange. It waits for all connections after that.
	Drain(ctx context.Context, told func()) error
}
