package keepalive

import (
	"net"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/heartwheel-go/heartwheel/pool"
)

// Guard is the deadline of one connection. Programs don't need to see it: they
// say [Touch] with the connection. Adapters for frameworks other than net make
// it a part of what they keep for a connection, and return it from their Guarded
// method. It takes 64 bytes.
//
// The zero Guard guards nothing. It must not be copied. Touch may be called by
// several goroutines at the same time.
type Guard struct {
	member member        // comes first, see guardAt
	conn   any           // as users know it; set before the member joins
	born   time.Duration // since the Keeper's start; set before the member joins

	// details is what only some connections have. It never goes back to nil.
	details atomic.Pointer[details]

	// Seen is the adapter's: bytes that it has seen, of whatever kind.
	Seen uint32

	marks atomic.Uint32
}

// member is a Guard's place in the pool. A value that says whose it is would take 8
// bytes of each connection.
type member = pool.Member[struct{}]

// guardAt returns the Guard that a member of a Keeper's pool is the beginning of.
func guardAt(m *member) *Guard { return (*Guard)(unsafe.Pointer(m)) }

// marks of a Guard are, from the lowest bit:
const (
	markTells  = 1 << iota // its socket knows when bytes last arrived
	markReads              // what is read touches it
	markCounts             // touches are counted

	// Eight bits: the Reason for which the Keeper closes it. Expire sets it.
	reasonShift = 8

	// Sixteen bits: 0 where the peer has been heard, and otherwise derived from how
	// long it may take to be.
	firstShift = 16
	firstMask  = 0xffff << firstShift
)

// Guarded is a connection, or what stands for it, that has a Guard.
type Guarded interface {
	Guarded() *Guard
}

// Touch moves the deadline to the timeout from now. It reports whether the
// connection will live until then; false means that it had been closed, or its
// expiry been decided, or that nobody guards it.
func (g *Guard) Touch() bool {
	g.count()
	return g.member.Touch()
}

// count counts a touch where that is wanted. It is inlined, and so is not Touch.
func (g *Guard) count() {
	if g.marks.Load()&markCounts != 0 {
		g.countBeat()
	}
}

func (g *Guard) countBeat() { g.details.Load().beats.Add(1) }

// Heard is Touch for bytes, which are life but no heartbeat: see Config.MinBeat.
func (g *Guard) Heard() { g.member.Touch() }

// Tells reports whether the socket knows when bytes last arrived.
func (g *Guard) Tells() bool { return g.marks.Load()&markTells != 0 }

// Reads reports whether the adapter touches the guard for what is read.
func (g *Guard) Reads() bool { return g.marks.Load()&markReads != 0 }

// Reason is why the Keeper closes the connection, after Expire has said so.
func (g *Guard) Reason() Reason { return Reason(g.marks.Load() >> reasonShift & 0xff) }

func (g *Guard) setReason(r Reason) { g.marks.Or(uint32(r) << reasonShift) }

// Touch says that the peer of a connection lives: its deadline is its timeout
// from now. conn is a connection that came from [Keeper.Listener] or
// [Keeper.Conn], or a *tls.Conn over one, or a gnet.Conn whose event handler was
// wrapped by gnetkeepalive.
//
// It reports whether the connection will live until the new deadline. False
// means that it had been closed, or its expiry been decided, or that nobody
// guards it. It may be called by several goroutines at the same time, also for
// connections that are long closed, and takes some nanoseconds.
func Touch(conn any) bool {
	if c, ok := conn.(*socketHalfConn); ok { // of TCP, and not counted: without a detour
		return c.guard.member.Touch()
	}
	if c, ok := conn.(interface{ SafeContext() any }); ok { // of gnet
		if found, ok := c.SafeContext().(Guarded); ok {
			g := found.Guarded()
			g.count()
			return g.member.Touch()
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

// guardOf returns the guard of a connection of this Keeper, or nil.
func (k *Keeper) guardOf(conn any) *Guard {
	if g := guardOf(conn); g != nil && k.pool.Has(&g.member) {
		return g
	}
	return nil
}

// markFirst notes that the peer has not been heard yet. The deadline is another one
// than that of a touch, see policy.hop: so it tells.
func (g *Guard) markFirst(tick time.Duration) { g.marks.Or(firstMark(g.member.Waits(), tick)) }

// isFirst reports whether the peer has not been heard yet.
func (g *Guard) isFirst(tick time.Duration) bool {
	first := g.marks.Load() & firstMask
	if first != 0 && first != firstMark(g.member.Waits(), tick) {
		g.notFirst()
		return false
	}
	return first != 0
}

// notFirst notes that the peer has been heard.
func (g *Guard) notFirst() { g.marks.And(^uint32(firstMask)) }

// firstMark tells how long a connection waits for its first message from what it waits
// for after a touch. It is not 0.
func firstMark(waits, tick time.Duration) uint32 {
	return uint32(waits/tick%0xffff+1) << firstShift
}
