package keepalive

import (
	"errors"
	"fmt"
	"net"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
	"github.com/heartwheel-go/heartwheel/pool"
)

// errPerKey is ReasonFull for too many connections of the same peer.
var errPerKey = fmt.Errorf("%w of the same peer", ReasonFull)

// guard begins to guard a connection: g is the adapter's, conn is the connection as the program
// knows it, and remote the address of its peer, or nil if unknown yet. tells reports whether
// the socket knows when bytes last arrived.
//
// It returns ReasonFull or ReasonDrain if the connection may not stay: the caller refuses it.
// It returns ErrNotGuarded after Close: then the connection stays, unguarded.
func (k *Keeper) guard(g *Guard, conn any, a adapter.Adapter, remote net.Addr, tells bool) error {
	if k.draining.Load() {
		return ReasonDrain
	}
	strangers.add(conn)
	p := k.policy.Load()
	g.keeper, g.conn, g.adapter, g.born, g.id = k, conn, a, k.now(), k.ids.Add(1)
	g.flags.Store(k.flagsOf(p, p.Activity, conn, tells))
	g.open(p)
	if remote != nil && !g.identify(remote) {
		g.forget(errPerKey)
		return errPerKey
	}
	err := k.join(p, g)
	switch { // Close, or Drain, may not have seen it
	case k.closing.Err() != nil && (g.release() || g.reason() == 0):
		err = ErrNotGuarded
	case k.draining.Load() && g.release():
		err = ReasonDrain
	}
	if err != nil {
		g.forget(err)
		return err
	}
	k.counts.opened.Add(1)
	return nil
}

// open sets the first state of a connection.
func (g *Guard) open(p *policy) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := &rules.Evidence{Born: g.born, Draw: p.draw(g)}
	if p.Rate.MinBeat > 0 {
		e.Lost = g.keeper.lost()
	}
	e.CheckAt = g.checksNow(p, g.born)
	s := rules.Open(&p.rules, e)
	g.setState(s, rules.Limit(&p.rules, s, e)) // makes more for MinBeat: its window has an end
	g.generation.Store(p.generation)
}

// join puts a connection into the pool.
func (k *Keeper) join(p *policy, g *Guard) error {
	hop := p.rules.Hop(rules.State{}, p.draw(g))
	switch err := k.pool.Join(&g.timer, g, hop); {
	case errors.Is(err, pool.ErrFull):
		return ReasonFull
	case err != nil:
		return fmt.Errorf("%w: %w", ErrArgument, err)
	}
	if p.FirstMessage > 0 {
		g.timer.Move(p.rules.FirstLook(g.life(), hop))
	}
	return nil
}

// flagsOf returns the flags of a connection.
func (k *Keeper) flagsOf(p *policy, a Activity, conn any, tells bool) uint32 {
	flags := uint32(a.life(tells)) | flagBegun | flagOpen
	if tells {
		flags |= flagTells
	}
	if p.Rate.MinBeat > 0 {
		flags |= flagCounts
	}
	if p.Advise {
		flags |= flagAdvises
	}
	if a == ActivityKernel && !tells {
		if k.cannotTell.CompareAndSwap(false, true) { // with a sync.Once, others would wait for the log
			k.log.Warn("keepalive: a socket does not know when bytes last arrived; such connections are kept as with ActivityRead",
				"conn", fmt.Sprintf("%T", inside(conn)))
		}
	}
	return flags
}

// identify notes the address of the peer, and counts the connection for its key. It reports
// false if there are too many connections of the same peer already, see Room.MaxPerKey.
func (g *Guard) identify(remote net.Addr) bool {
	g.mu.Lock()
	g.remote = remote
	g.mu.Unlock()
	k := g.keeper
	p := k.policy.Load()
	if p.Room.MaxPerKey == 0 {
		return true
	}
	key := ""
	k.call("Room.Key", func() { key = p.Room.Key(remote) })
	share, ok := k.shares.take(key, p.Room.MaxPerKey)
	if !ok {
		return false
	}
	if share != nil && !g.keep(share) {
		k.shares.giveBack(share)
	}
	return true
}

// keep keeps a share until the connection is forgotten. It reports false if the connection is
// forgotten already.
func (g *Guard) keep(share *share) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpen() {
		return false
	}
	g.need().share = share
	return true
}

// knownRemote returns the address noted by identify, or nil.
func (g *Guard) knownRemote() net.Addr {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.remote
}

// inside returns the connection inside one from [Keeper.Conn].
func inside(c any) any {
	if own, ok := c.(interface{ self() *conn }); ok {
		return own.self().inner
	}
	return c
}

// release ends the guarding of a connection. It reports false if the guarding has ended before.
// Then reason says why: 0 after Keeper.Close.
func (g *Guard) release() bool {
	_, ok := g.timer.Remove()
	if !ok { // giveUp may be about to set the reason
		g.mu.Lock()
		defer g.mu.Unlock()
	}
	return ok
}

// closed counts a closed connection and tells OnClose. Adapters call it once.
func (g *Guard) closed(reason Reason) {
	reason = reason.orLocal()
	k := g.keeper
	k.counts.closed[reason].Add(1)
	now := k.now()
	age := now.Sub(g.born)
	if g.flags.Load()&flagAdvises != 0 {
		touched, _ := g.timer.Touched()
		g.endsSilence(now.Sub(rules.Time(touched)), false)
	}
	k.ages.observe(age)
	g.forget(reason)
	k.log.Debug("keepalive: closed a connection", "reason", reason.String())
	if g.reason() != 0 {
		k.bursts.closed(k, reason)
		defer k.leaving.Add(-1) // even after runtime.Goexit
	}
	if onClose := k.policy.Load().OnClose; onClose != nil {
		defer k.call("OnClose", func() { onClose(g.conn, reason) })
	}
	k.tellWatchers(g, reason, age)
}

// forget gives back the share of a connection and ends its context, after its guarding has
// ended.
func (g *Guard) forget(why error) {
	g.mu.Lock()
	g.flags.And(^uint32(flagOpen))
	var share *share
	if m := g.more.Load(); m != nil {
		share, m.share = m.share, nil
	}
	end := g.userNow().end()
	g.mu.Unlock()
	g.keeper.shares.giveBack(share)
	end(why)
}

// lose ends the guarding of a connection without its guard: nobody can have touched the
// connection, so its silence is no reason to close it.
func (g *Guard) lose() {
	if !g.release() {
		return
	}
	g.forget(ErrNotGuarded)
	g.keeper.log.Error("keepalive: a connection has lost its guard; it stays open, unguarded",
		"conn", fmt.Sprintf("%T", g.conn))
}
