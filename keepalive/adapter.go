package keepalive

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/heartwheel-go/heartwheel/pool"
)

// What follows is for adapters: what stands between a Keeper and the connections
// of net (in this package) and of gnet (in gnetkeepalive). An adapter
//
//   - keeps a Guard for each connection and begins with Keeper.Guard,
//   - touches the Guard when the connection shows life, as far as that counts
//     (Keeper.Reads),
//   - when it is told that the deadline has passed (Due), lets Keeper.Expire
//     decide, which asks the socket; if that says so, it closes the connection
//     and says Keeper.Closed,
//   - says Keeper.Release and Keeper.Closed when the connection is closed for
//     another reason.

// Due is how a Keeper tells an adapter that the deadline of a connection has
// passed. What a connection's guard is found by (see [Guarded]) must be one.
type Due interface {
	Guarded

	// Due is called by a worker, once for each time that the deadline passes. It
	// must not block for long. Now or later the adapter calls [Keeper.Expire];
	// until then a touch saves the connection.
	Due(conn any)
}

// Guard begins to guard a connection: g is the adapter's, and conn is what users
// know, which OnIdle, OnClose and Conns show them. It returns [ErrFull] where
// there are too many connections, after which the adapter closes conn, and
// [ErrClosed] after Close, after which conn just stays unguarded.
func (k *Keeper) Guard(g *Guard, conn any) error {
	switch err := k.pool.Join(&g.member, conn); {
	case errors.Is(err, pool.ErrFull):
		k.rejected.Add(1)
		return ErrFull
	case errors.Is(err, pool.ErrClosed):
		return ErrClosed
	case err != nil:
		return fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return nil
}

// due runs on a worker of the wheel's.
func (k *Keeper) due(m *pool.Member[any], conn any) {
	d, ok := find(conn).(Due)
	if ok && &d.Guarded().member == m {
		d.Due(conn)
		return
	}
	// What Touch looks for is not there any more, so nobody can have touched it:
	// it must not be closed for that.
	if _, ok := m.Expire(); ok {
		k.log.Error("keepalive: a connection has lost its guard; it stays open, unguarded",
			"conn", fmt.Sprintf("%T", conn))
	}
}

// Heard is what the socket of a connection says after its deadline has passed.
type Heard struct {
	// More is how much longer the connection may stay because its peer was heard
	// by the socket, if not by this program. Zero means that it is silent.
	More time.Duration

	// Unread says that this is because of bytes that wait to be read. A few times
	// in a row that is a slow program, and then one that hangs.
	Unread bool

	// Read is how many bytes of the connection this program has read so far, where
	// the socket knows, as far as the answer is that of Ask.
	Read uint64

	taken bool // some of those that waited were read: it does not hang
	fresh bool // bytes have arrived within the timeout
}

// Expire decides about a connection whose deadline has passed. It reports
// whether it is to be closed: the adapter does that at once, and then calls
// Closed. False means that it lives: somebody has touched or closed it
// meanwhile, its socket has heard of the peer, or OnIdle wants it to. ask asks
// the socket, see Ask.
//
// It must not be called for the same guard by two goroutines at the same time.
func (k *Keeper) Expire(g *Guard, conn any, ask func() Heard) bool {
	if !g.member.IsDue() || k.spare(g, ask()) {
		return false
	}
	silence := g.member.DueTick()
	verdict := k.askOnIdle(conn)
	if g.member.DueTick() != silence {
		return false // it was about a silence that has ended
	}
	if verdict > 0 {
		g.member.Postpone(time.Duration(verdict))
		return false
	}
	if k.onIdle != nil && k.activity == ActivityKernel && k.spare(g, ask()) {
		return false // what came meanwhile has touched nothing
	}
	_, ok := g.member.Expire()
	return ok
}

// spare gives a connection more time where its peer was heard, unless it has had
// too much of that.
func (k *Keeper) spare(g *Guard, heard Heard) bool {
	if heard.More <= 0 {
		return false
	}
	rounds, ok := g.granted.next(g.member.DueTick())
	if heard.taken {
		rounds, ok = 0, true
	}
	if heard.Unread && !ok {
		return false
	}
	if g.member.Postpone(heard.More) {
		k.spared.Add(1)
		if heard.Unread {
			g.granted = rounds.until(g.member.DueTick())
		}
	}
	return true
}

func (k *Keeper) askOnIdle(conn any) Verdict {
	verdict := Close
	if k.onIdle != nil {
		k.call("OnIdle", func() { verdict = k.onIdle(conn) })
	}
	return verdict
}

// Reads reports whether an adapter touches the guard of a connection for what is
// read: not with ActivityManual, and with ActivityKernel only where the socket does
// not know when bytes last arrived (see SocketTells), which is logged once.
func (k *Keeper) Reads(conn any, tells bool) bool {
	if k.activity != ActivityKernel {
		return k.activity != ActivityManual
	}
	if !tells {
		k.cannotTell.Do(func() {
			k.log.Warn("keepalive: a socket does not know when bytes last arrived; such connections are kept as with ActivityRead",
				"conn", fmt.Sprintf("%T", conn))
		})
	}
	return !tells
}

// Release ends the guarding of a connection that is being closed for another
// reason than its silence, and returns the connection. It reports false where the
// guarding has ended before: by Release, by Expire, or with the Keeper.
func (k *Keeper) Release(g *Guard) (conn any, ok bool) { return g.member.Remove() }

// Closed counts a connection that has been closed and tells OnClose. Adapters
// call it once, after Expire or Release said true.
func (k *Keeper) Closed(conn any, reason Reason) {
	k.closed[reason].Add(1)
	if reason == ReasonIdle {
		k.log.Debug("keepalive: closed an idle connection", "timeout", k.timeout)
	}
	if k.onClose != nil {
		k.call("OnClose", func() { k.onClose(conn, reason) })
	}
}

// call runs a function of the user. If it panics, that harms nobody else.
func (k *Keeper) call(name string, f func()) {
	defer func() {
		if v := recover(); v != nil {
			k.reportPanic(fmt.Sprintf("%s: %v", name, v), debug.Stack())
		}
	}()
	f()
}
