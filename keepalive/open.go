package keepalive

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"sync"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
	"github.com/heartwheel-go/heartwheel/pool"
)

// errPerKey is ReasonFull for too many connections of the same peer.
var errPerKey = fmt.Errorf("%w of the same peer", ReasonFull)

// admit begins to guard a connection: g is the adapter's, conn is the connection as the program
// knows it, and remote the address of its peer, or nil if unknown yet. tells reports whether
// the socket knows when bytes last arrived.
//
// It returns ReasonFull or ReasonDrain if the connection may not stay: the caller refuses it.
// It returns ErrNotGuarded after Close: then the connection stays, unguarded.
func (k *Keeper) admit(g *Guard, conn any, a adapter.Adapter, remote net.Addr, tells bool) error {
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
		g.timer.Move(min(p.FirstMessage, hop))
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

// move notes another address of the peer, and counts the connection for that one's key. One goroutine at a time may
// call it.
func (g *Guard) move(remote net.Addr) error {
	if !g.isOpen() {
		return ErrNotGuarded
	}
	k := g.keeper
	p := k.policy.Load()
	key := ""
	if p.Room.MaxPerKey > 0 {
		k.call("Room.Key", func() { key = p.Room.Key(remote) })
	}
	old := g.shareNow()
	share, ok := old, true
	if old == nil || old.key != key { // else it could be refused for itself
		share, ok = k.shares.take(key, p.Room.MaxPerKey)
	}
	if !ok {
		k.countRefused(errPerKey)
		return errPerKey
	}
	if share != old {
		defer func() { k.shares.giveBack(old) }()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpen() {
		old = share // forget has given back the other one
		return ErrNotGuarded
	}
	g.remote = remote
	if share != old {
		g.makeRare().share = share
	}
	return nil
}

// shareNow returns the share of the connection, or nil.
func (g *Guard) shareNow() *share {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.rare.Load(); m != nil {
		return m.share
	}
	return nil
}

// keep keeps a share until the connection is forgotten. It reports false if the connection is
// forgotten already.
func (g *Guard) keep(share *share) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpen() {
		return false
	}
	g.makeRare().share = share
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

// countRefused counts a refused connection.
func (k *Keeper) countRefused(why error) {
	switch {
	case errors.Is(why, ReasonDrain):
		k.counts.refusedDrain.Add(1)
	case errors.Is(why, errPerKey):
		k.counts.refusedPerKey.Add(1)
		k.bursts.note(k, func(b *bursts) { b.perKey++ })
	case errors.Is(why, ReasonFull):
		k.counts.refusedFull.Add(1)
		k.bursts.note(k, func(b *bursts) { b.full++ })
	}
}

// maxStrangers bounds how many types are remembered: a program may make types while it runs.
const maxStrangers = 1000

// strangers warns of Touch with a value that no Keeper knows: it compiles, and touches nobody.
var strangers = strangerTypes{known: map[reflect.Type]bool{}}

// strangerTypes are types of connections. A type is known after a Keeper has guarded a connection of it, or was
// asked to: such a connection is no mistake, guarded or not. It is known, too, after a warning.
type strangerTypes struct {
	mu    sync.RWMutex
	known map[reflect.Type]bool
}

// add notes the type of a connection, and reports whether it is news.
func (s *strangerTypes) add(conn any) (added bool) {
	t := reflect.TypeOf(conn)
	s.mu.RLock()
	known := s.known[t] || len(s.known) >= maxStrangers
	s.mu.RUnlock()
	if known {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[t] || len(s.known) >= maxStrangers {
		return false
	}
	s.known[t] = true
	return true
}

// warn warns of a connection if the type of the innermost one is strange.
func (s *strangerTypes) warn(conn, innermost any) {
	if s.add(innermost) {
		slog.Default().Warn("keepalive: Touch of a value that no Keeper guards has no effect; is it the connection from the Keeper, or does a method NetConn lead to that?",
			"conn", fmt.Sprintf("%T", conn), "inside", fmt.Sprintf("%T", innermost))
	}
}
