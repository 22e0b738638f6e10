package keepalive

import (
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"github.com/heartwheel-go/heartwheel/pool"
)

// What follows is for adapters: what stands between a Keeper and the connections
// of net (in this package) and of gnet (in gnetkeepalive). An adapter
//
//   - keeps a Guard for each connection and begins with Keeper.Guard,
//   - touches the Guard when the connection shows life, as far as that counts
//     (Guard.Reads),
//   - when it is told that something is to be decided (Due), lets Keeper.Expire
//     decide, which asks the socket; if that says so, it closes the connection
//     for the Guard's Reason and says Keeper.Closed,
//   - says Keeper.Release and Keeper.Closed when the connection is closed for
//     another reason.

// Due is how a Keeper tells an adapter that there is something to be decided about a
// connection: most often that its deadline has passed. What a connection's guard is
// found by (see [Guarded]) must be one.
type Due interface {
	Guarded

	// Due is called by a worker. It must not block for long. Now or later the adapter
	// calls [Keeper.Expire]; until then a touch saves the connection.
	Due(k *Keeper, conn any)
}

// Guard begins to guard a connection: g is the adapter's, and conn is what users
// know, which OnIdle, OnClose and Conns show them. It returns [ErrFull] where there are
// too many connections, in all or of this peer, and [ErrDraining] while they are being
// closed, after which the adapter closes conn; and [ErrClosed] after Close, after which
// conn just stays unguarded.
func (k *Keeper) Guard(g *Guard, conn any, from Origin) error {
	p := k.policy.Load()
	if k.draining.Load() {
		k.refused.draining.Add(1)
		return ErrDraining
	}
	g.conn, g.born = conn, time.Since(k.start)
	g.marks.Store(k.kindOf(p, conn, from.SocketTells))
	if p.detailed {
		k.detailsOf(g)
	}
	if from.Remote != nil && !k.Identify(g, from.Remote) {
		k.refused.perKey.Add(1)
		k.bursts.note(k, func() { k.bursts.refused.PerKey++ })
		return ErrFull
	}
	err := k.join(p, g)
	if err == nil && k.draining.Load() && k.Release(g) { // Drain may not have seen it
		k.refused.draining.Add(1)
		err = ErrDraining
	}
	if err != nil {
		k.forget(g, err)
		return err
	}
	k.opened.Add(1)
	return nil
}

// Origin is what a Keeper has to know of a new connection.
type Origin struct {
	// Remote is the address of the peer, or nil where it is not known yet; then
	// Identify is to be called when it is.
	Remote net.Addr

	// SocketTells is what the function of that name says of its socket.
	SocketTells bool
}

// Identify says where the peer of a connection is. It reports false where there are
// too many connections of the same peer already (Config.MaxPerKey).
func (k *Keeper) Identify(g *Guard, remote net.Addr) bool {
	p := k.policy.Load()
	if p.MaxPerKey == 0 {
		return true
	}
	key := ""
	k.call("Key", func() { key = p.Key(remote) })
	share, ok := k.shares.Take(key, p.MaxPerKey)
	if !ok {
		return false
	}
	if share != nil && !k.detailsOf(g).keep(share) {
		k.shares.GiveBack(share)
	}
	return true
}

// keep keeps a share until the connection is forgotten. It reports false where it has
// been already.
func (d *details) keep(share *pool.Share) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.forgotten {
		d.share = share
	}
	return !d.forgotten
}

// join puts a connection into the pool.
func (k *Keeper) join(p *policy, g *Guard) error {
	switch err := k.pool.JoinFor(&g.member, struct{}{}, p.hop(g, p.Timeout)); {
	case errors.Is(err, pool.ErrFull):
		k.refused.full.Add(1)
		k.bursts.note(k, func() { k.bursts.refused.Full++ })
		return ErrFull
	case errors.Is(err, pool.ErrClosed):
		return ErrClosed
	case err != nil:
		return fmt.Errorf("%w: %w", ErrArgument, err)
	}
	if p.FirstMessage > 0 {
		g.member.Move(p.FirstMessage)
		g.markFirst(p.Tick)
	}
	return nil
}

// kindOf returns what kind of connection this is.
func (k *Keeper) kindOf(p *policy, conn any, socketTells bool) (is uint32) {
	if socketTells {
		is |= markTells
	}
	if k.activity == ActivityRead || k.activity == ActivityReadWrite {
		is |= markReads
	}
	if k.activity == ActivityKernel && !socketTells {
		is |= markReads
		if k.cannotTell.CompareAndSwap(false, true) { // no sync.Once, in which others would wait for the log
			k.log.Warn("keepalive: a socket does not know when bytes last arrived; such connections are kept as with ActivityRead",
				"conn", fmt.Sprintf("%T", inside(conn)))
		}
	}
	if p.MinBeat > 0 {
		is |= markCounts
	}
	return is
}

// inside returns the connection inside of one that came from [Keeper.Conn].
func inside(c any) any {
	if own, ok := c.(interface{ self() *conn }); ok {
		return own.self().inner
	}
	return c
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

	ago            time.Duration // how long ago that was, unless Unread
	taken          bool          // some of those that waited were read: it does not hang
	fresh          bool          // bytes have arrived in time
	bytes          uint64        // that have ever arrived
	received, sent time.Duration // ages of the last bytes, or less than 0
}

// Now returns what a socket says whose peer was heard just now.
func (h Heard) Now(k *Keeper) Heard {
	h.More, h.Unread, h.ago = k.Timeout(), false, 0
	return h
}

// Release ends the guarding of a connection that is being closed for another
// reason than the Keeper's. It reports false where the guarding has ended before: by
// Release, by Expire, or with the Keeper.
func (k *Keeper) Release(g *Guard) bool {
	_, ok := g.member.Remove()
	return ok
}

// Closed counts a connection that has been closed and tells OnClose. Adapters
// call it once, after Expire or Release said true.
func (k *Keeper) Closed(g *Guard, reason Reason) {
	k.closed[reason].Add(1)
	age := time.Since(k.start) - g.born
	k.ages.observe(age)
	k.forget(g, reason)
	k.log.Debug("keepalive: closed a connection", "reason", reason.String())
	if g.Reason() != 0 {
		k.bursts.closed(k, reason)
	}
	k.tellWatchers(g, reason, age)
	if onClose := k.policy.Load().OnClose; onClose != nil {
		k.call("OnClose", func() { onClose(g.conn, reason) })
	}
	if g.Reason() != 0 {
		k.leaving.Add(-1)
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
