package keepalive

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/heartwheel-go/heartwheel/internal/tcpsocket"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
	"github.com/heartwheel-go/heartwheel/pool"
)

// errPerKey is ReasonFull for too many connections of the same peer.
var errPerKey = fmt.Errorf("%w of the same peer", ReasonFull)

// admit begins to guard a connection: g is the adapter's, conn is the connection as the program
// knows it, and remote the address of its peer, or nil if unknown yet. Its socket has been met, if it has one.
//
// It returns ReasonFull or ReasonDrain if the connection may not stay: the caller refuses it.
// It returns ErrNotGuarded after Close: then the connection stays, unguarded.
func (k *Keeper) admit(g *Guard, conn any, a adapter.Adapter, remote net.Addr) error {
	if k.draining.Load() {
		return ReasonDrain
	}
	strangers.add(conn)
	p := k.policy.Load()
	g.keeper, g.conn, g.adapter, g.born, g.id = k, conn, a, k.now(), k.ids.Add(1)
	g.flags.Store(g.flagsOf(p, p.Activity))
	g.open(p)
	if remote != nil && !g.identify(remote) {
		g.forget(errPerKey)
		return errPerKey
	}
	err := k.join(p, g)
	switch { // Close, or Drain, may not have seen it
	case k.closed.Load() && (g.release() || g.reason() == 0):
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
	e := &rules.Evidence{Born: g.born, Draw: g.draw()}
	if p.Rate.MinBeat > 0 {
		e.Lost = g.keeper.lost()
	}
	e.CheckAt = g.checksNow(p, g.born)
	s := rules.Open(&p.rules, e)
	g.setState(s, rules.Limit(&p.rules, s, e))
	g.generation.Store(p.generation)
}

// join puts a connection into the pool.
func (k *Keeper) join(p *policy, g *Guard) error {
	hop := p.rules.Hop(rules.State{}, g.draw())
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

// meet notes whether the socket of a new connection knows when bytes last arrived.
func (g *Guard) meet(fd uintptr) { g.setFlag(flagTells, tcpsocket.Tells(fd)) }

// flagsOf returns the flags of a connection.
func (g *Guard) flagsOf(p *policy, a Activity) uint32 {
	k, tells := g.keeper, g.tells()
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
			inside := g.conn
			if c, ok := g.adapter.(*conn); ok {
				inside = c.inner
			}
			k.log.Warn("keepalive: a socket does not know when bytes last arrived; such connections are kept as with ActivityRead",
				"conn", fmt.Sprintf("%T", inside))
		}
	}
	return flags
}

// identify notes the address of the peer, and counts the connection for its key. It reports
// false if there are too many connections of the same peer already, see Room.MaxPerKey.
func (g *Guard) identify(remote net.Addr) bool {
	g.setRemote(remote)
	return g.keeper.policy.Load().Room.MaxPerKey == 0 || g.countAddress(remote) != errPerKey //nolint:errorlint // it is either
}

// countAddress makes the connection count for an address.
func (g *Guard) countAddress(remote net.Addr) error {
	k, key := g.keeper, ""
	room := &k.policy.Load().Room
	if room.MaxPerKey > 0 { // after a panic it counts for none
		k.call("Room.Key", func() { key = room.Key(remote) })
	}
	return k.shares.countAddress(g, key, room.MaxPerKey)
}

// signs returns how many of the bytes that have arrived are the peer's own.
func (g *Guard) signs(arrived uint64) uint64 {
	if g.rare.Load() == nil {
		return arrived
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return arrived - min(arrived, g.extrasNow().header)
}

// setRemote notes the address of the peer.
func (g *Guard) setRemote(remote net.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remote = remote
}

// knownRemote returns the address noted by setRemote, or nil.
func (g *Guard) knownRemote() net.Addr {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.remote
}

// countRefused counts a refused connection.
func (k *Keeper) countRefused(why error) {
	switch {
	case errors.Is(why, ReasonDrain):
		k.counts.refusedDrain.Add(1)
	case errors.Is(why, errPerKey):
		k.counts.refusedPerKey.Add(1)
		k.warnFull()
	case errors.Is(why, ReasonFull):
		k.counts.refusedFull.Add(1)
		k.warnFull()
	}
}

// maxStrangers bounds how many types are remembered: a program may make types while it runs.
const maxStrangers = 1000

// strangers warns of Touch with a value that no Keeper knows: it compiles, and touches nobody.
var strangers = new(strangerTypes)

// strangerTypes are types of connections. A type is known after a Keeper has guarded a connection of it, or was
// asked to: such a connection is no mistake, guarded or not. It is known, too, after a warning.
type strangerTypes struct {
	known sync.Map // by reflect.Type
	n     atomic.Int64
}

// add notes the type of a connection, and reports whether it is news.
func (s *strangerTypes) add(conn any) (added bool) {
	if s.n.Load() >= maxStrangers {
		return false
	}
	_, known := s.known.LoadOrStore(reflect.TypeOf(conn), nil)
	return !known && s.n.Add(1) <= maxStrangers
}

// warn warns of a connection if the type of the innermost one is strange.
func (s *strangerTypes) warn(conn, innermost any) {
	if s.add(innermost) {
		slog.Default().Warn("keepalive: Touch of a value that no Keeper guards has no effect; is it the connection from the Keeper, or does a method NetConn lead to that?",
			"conn", fmt.Sprintf("%T", conn), "inside", fmt.Sprintf("%T", innermost))
	}
}
