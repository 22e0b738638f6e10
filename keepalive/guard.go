package keepalive

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
	"github.com/heartwheel-go/heartwheel/pool"
)

// Guard is the handle of a guarded connection. [Of] finds it. It never guards another
// connection, so a Guard kept for too long does no harm.
//
// All methods are safe for concurrent use, and may be called on a nil Guard, which guards
// nothing. An adapter for another framework embeds a Guard in its own state of a
// connection, see package adapter. The zero Guard guards nothing. It must not be copied.
type Guard struct {
	// flags and the fields of the timer used by a touch share a cache line.
	flags      atomic.Uint32
	generation atomic.Uint32 // of the policy at its last decision
	timer      pool.Member[*Guard]

	keeper  *Keeper // this one and the next four are set before the timer starts
	conn    any     // as the program knows it
	adapter adapter.Adapter
	born    rules.Time
	id      uint64 // see Info.ID

	// mu guards the rules.State in rare, and the fields below. The wheel may be called with it,
	// but no function of the user.
	mu      sync.Mutex
	remote  net.Addr      // of the peer, or nil while unknown
	visited bool          // a worker, or the event loop, makes a decision on it
	again   bool          // and has to do so once more
	scratch uint32        // the adapter's, and not guarded
	beats   atomic.Uint32 // touches counted, see flagCounts
	rare    atomic.Pointer[rare]
}

// rare is the state that most connections don't need, 160 bytes. It is made once.
type rare struct {
	limit  atomic.Int64 // when to decide at the latest, touched or not
	state  rules.State
	member *member // what it counts for, or nil
	extras *extras
}

const (
	lifeMask     = 3       // a rules.Life
	flagTells    = 1 << 2  // its socket knows when bytes last arrived
	flagCounts   = 1 << 3  // touches are counted, in beats
	flagBegun    = 1 << 4  // it guards a connection, or has guarded one
	flagOpen     = 1 << 5  // it guards a connection
	flagUpgraded = 1 << 6  // it has an upgrade
	flagChanged  = 1 << 7  // see rules.Evidence.Changed
	flagBacklog  = 1 << 8  // see adapter.Protocol
	flagUnread   = 1 << 9  // see rules.Evidence.Unread
	flagBegins   = 1 << 10 // see adapter.Protocol
	flagCame     = 1 << 11 // bytes have come after the last exchange
	flagReadsOn  = 1 << 12 // and the program reads on: they are no whole exchange
	flagAdvises  = 1 << 13 // its silences are counted, see advisor
	flagEnded    = 1 << 14 // its guarding has ended, and OnClose has returned

	arriving = flagBegins | flagCame // an exchange begins to arrive

	reasonShift = 16 // above: why the Keeper closes it, a Reason or 0
)

// maxLayers bounds how deep Of looks, since a connection may claim to be inside itself.
const maxLayers = 100

// isNil reports whether v is nil, or a nil pointer.
func isNil(v any) bool {
	type words struct{ kind, pointer unsafe.Pointer } // an interface: reflect would cost Touch as much again
	return (*words)(unsafe.Pointer(&v)).pointer == nil
}

// Of returns the guard of a connection: one from [Keeper.Listener] or [Keeper.Conn], or a
// *tls.Conn over it, or any other connection with a method NetConn or Raw that leads to it, or a
// connection of another framework with an adapter, such as a gnet.Conn. It returns nil for a nil
// pointer, and for a connection never guarded. In OnClose a connection still has its guard,
// and the guard its [Guard.Value], but it guards nothing. After OnClose it has, too, except with
// other frameworks.
func Of(conn any) *Guard {
	g, _ := search(conn)
	return g
}

// search returns the guard of a connection, or nil and the connection inside all others: it has no
// place for a guard.
func search(conn any) (g *Guard, innermost any) {
	for range maxLayers {
		if isNil(conn) {
			return nil, nil
		}
		switch c := conn.(type) {
		case interface{ guarded() *Guard }:
			return c.guarded().orNil(), nil
		case interface{ SafeContext() any }: // a gnet.Conn
			conn = c.SafeContext()
		case *Guard:
			return c.orNil(), nil
		case interface{ NetConn() net.Conn }: // a *tls.Conn
			conn = c.NetConn()
		case interface{ Raw() net.Conn }: // one with a PROXY header
			conn = c.Raw()
		default:
			return find(c), c
		}
	}
	return nil, nil
}

// find asks the adapters without a place for a guard.
func find(conn any) *Guard {
	if b, ok := adapter.Found(conn).(binding); ok {
		return b.orNil()
	}
	return nil
}

// orNil returns g, or nil if it has never guarded anything.
func (g *Guard) orNil() *Guard {
	if g == nil || g.flags.Load()&flagBegun == 0 {
		return nil
	}
	return g
}

// Conn returns the connection as the program knows it, also after its end, or nil for a guard that
// Keeper.Bind has never had.
func (g *Guard) Conn() any {
	if g == nil {
		return nil
	}
	return g.conn
}

// Keeper returns the Keeper of the connection, also after its end, or nil for a guard that has
// never guarded any.
func (g *Guard) Keeper() *Keeper {
	if g == nil {
		return nil
	}
	return g.keeper
}

// isOpen reports whether g guards a connection.
func (g *Guard) isOpen() bool { return g != nil && g.flags.Load()&flagOpen != 0 }

// hasEnded reports whether a drain or a Shed need not wait for the connection any longer.
func (g *Guard) hasEnded() bool { return g.flags.Load()&flagEnded != 0 }

// Touch is a sign of life of a connection's peer: the new deadline is one timeout from now.
// conn is what [Of] takes.
//
// It reports true if the timeout does not end the connection before the new deadline. All else may:
// ReadIdle, WriteIdle, WriteStall, MaxUnsent, a probe without an answer, an age, a rate, pressure, an eviction, a drain,
// Close, and a shorter timeout. False means closed, about to be closed, or not guarded. If no
// Keeper has ever guarded anything of the type of conn, or of the connection inside, the program
// may have taken the wrong value for its connection, and its living peers are closed. So slog's
// default logger gets a warning, once per type.
//
// Touch takes some nanoseconds, and a lock only while a decision on the connection is under way, or with Config.Advise. It
// is safe for concurrent use, also for connections closed long ago.
func Touch(conn any) bool {
	if isNil(conn) {
		return false
	}
	switch c := conn.(type) {
	case *tcpConn:
		if !c.guard.counts() { // inlined here, unlike Guard.Touch
			return c.guard.timer.Touch()
		}
	case interface{ SafeContext() any }: // a gnet.Conn
		if g, ok := c.SafeContext().(*Guard); ok && g != nil && !g.counts() {
			return g.timer.Touch()
		}
	}
	g, innermost := search(conn)
	if g == nil && innermost != nil {
		strangers.warn(conn, innermost)
	}
	return g.Touch()
}

// counts reports whether touches are counted, or the silences before them.
func (g *Guard) counts() bool { return g.flags.Load()&(flagCounts|flagAdvises) != 0 }

// count counts a touch.
func (g *Guard) count() {
	flags := g.flags.Load()
	if flags&flagCounts != 0 {
		g.beats.Add(1)
	}
	if flags&flagAdvises != 0 {
		g.endsSilence(g.timer.SinceTouch(), true)
	}
}

// Touch is the package function [Touch] for this connection.
func (g *Guard) Touch() bool {
	if g == nil {
		return false
	}
	if g.counts() {
		g.count()
	}
	return g.timer.Touch()
}

// touchForBytes is Touch for bytes, if they are life. They are no heartbeat. A touch of the program that follows is exact, too.
func (g *Guard) touchForBytes() {
	g.keeper.wheel.Now() // the hand may sleep
	switch flags := g.flags.Load(); {
	case rules.Life(flags&lifeMask) == rules.Touches:
		return
	case flags&flagAdvises != 0:
		g.endsSilence(g.timer.SinceTouch(), true)
	}
	g.timer.Touch()
}

// life returns what counts as life of the connection.
func (g *Guard) life() rules.Life { return rules.Life(g.flags.Load() & lifeMask) }

// setFlag sets a flag, or clears it. It reports whether the flag was set.
func (g *Guard) setFlag(flag uint32, on bool) (was bool) {
	if on {
		return g.flags.Or(flag)&flag != 0
	}
	return g.flags.And(^flag)&flag != 0
}

// setLife sets what counts as life of the connection.
func (g *Guard) setLife(life rules.Life) {
	for old := g.flags.Load(); !g.flags.CompareAndSwap(old, old&^lifeMask|uint32(life)); {
		old = g.flags.Load()
	}
}

// tells reports whether the socket knows when bytes last arrived.
func (g *Guard) tells() bool { return g.flags.Load()&flagTells != 0 }

// reason returns why the Keeper closes the connection, or 0.
func (g *Guard) reason() Reason { return Reason(g.flags.Load() >> reasonShift) }

// makeRare returns the rare of the connection, and makes it if there is none. mu must be held.
func (g *Guard) makeRare() *rare {
	r := g.rare.Load()
	if r == nil {
		r = new(rare)
		r.limit.Store(int64(rules.Never))
		g.rare.Store(r)
	}
	return r
}

// state returns the remembered state of the connection. mu must be held.
func (g *Guard) state() rules.State {
	if r := g.rare.Load(); r != nil {
		return r.state
	}
	return rules.State{}
}

// setState remembers a state, and the latest instant of the next decision. mu must be held.
func (g *Guard) setState(s rules.State, limit rules.Time) {
	r := g.rare.Load()
	if r == nil && s == (rules.State{}) && limit == rules.Never {
		return
	}
	r = g.makeRare()
	r.state = s
	r.limit.Store(int64(limit))
}

// stall returns what was seen of the bytes that wait for the peer. mu must be held.
func (g *Guard) stall() rules.Stall {
	if q := g.extrasNow().stall; q != nil {
		return *q
	}
	return rules.Stall{}
}

// setStall remembers that. Only a connection with such a policy pays for it. mu must be held.
func (g *Guard) setStall(q rules.Stall) {
	if q == g.stall() {
		return
	}
	u := g.extrasLocked()
	if u.stall == nil {
		u.stall = new(rules.Stall)
	}
	*u.stall = q
}

// limit returns the instant by which the hand must hand the connection over, however often
// the connection is touched: at once if the policy has changed. The wheel calls it under its
// lock.
func (g *Guard) limit() time.Duration {
	if g.generation.Load() != g.keeper.policy.Load().generation {
		return 0
	}
	if r := g.rare.Load(); r != nil {
		return time.Duration(r.limit.Load())
	}
	return time.Duration(rules.Never)
}
