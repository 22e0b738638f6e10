package keepalive

import (
	"context"
	"log/slog"
	"math"
	"net"
	"os"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// Bind begins to guard a connection with the zero Guard g. It is for adapters, see package adapter. conn is the
// connection as the program knows it, and must already lead to g. remote is the address of its peer. If it is nil,
// Room.MaxPerKey does not count the connection before Identify, and Adapter.Peer may know the address later.
//
// An error means that the connection is not guarded. It wraps [ReasonFull] if there are too many
// connections, in all or of this peer, and [ReasonDrain] if the Keeper is draining: the adapter
// closes the connection, without Release and Closed. After any other error, such as
// [ErrNotGuarded] after Close, the connection stays open.
//
// Bind panics without a Keeper from New.
func (k *Keeper) Bind(g *Guard, conn any, a adapter.Adapter, remote net.Addr) error {
	k.must("Bind")
	switch {
	case g.keeper != nil:
		return wrong("guard of %T has been used before", conn)
	case k.draining.Load(): // before the socket is asked: there may be a flood
		k.countRefused(ReasonDrain)
		return ReasonDrain
	}
	g.conn = conn
	_ = a.Control(g.Binding(), g.meet)
	err := k.admit(g, conn, a, remote)
	k.countRefused(err)
	return err
}

// Binding returns what an adapter, and a protocol above the connection, call for it. Programs don't need it. The
// Binding of a nil Guard has no connection, and its Upgrade fails. Nothing else may be called.
func (g *Guard) Binding() adapter.Binding { return binding{g} }

// binding is a Guard for its adapter.
type binding struct{ *Guard }

func (b binding) Scratch() *uint32 { return &b.scratch }
func (b binding) Tells() bool      { return b.tells() }

func (b binding) Read() {
	if b.life() != rules.Arrivals { // inlined for connections of net
		b.touchForBytes()
	}
}

func (b binding) Wrote() {
	if b.life() == rules.ReadsWrite && !b.tells() {
		b.touchForBytes()
	}
}

func (b binding) Decide() {
	if b.enter() {
		(&visit{Guard: b.Guard}).run()
	}
}

func (b binding) Header(size int) {
	header := uint64(math.MaxUint64)
	if size >= 0 {
		header = uint64(size)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.extrasLocked().header = header
}

func (b binding) Release() bool { return b.release() }
func (b binding) Lose()         { b.lose() }

func (b binding) Identify(remote net.Addr) net.Error {
	if b.identify(remote) || !b.release() {
		return nil
	}
	b.closed(ReasonFull)
	return ReasonFull
}

// Move leaves a connection with a key of SetKey at that.
func (b binding) Move(remote net.Addr) error {
	if !b.isOpen() {
		return ErrNotGuarded
	}
	err := b.countAddress(remote)
	b.keeper.countRefused(err)
	if err == nil {
		b.setRemote(remote)
	}
	return err
}

func (b binding) Reason() net.Error {
	if why := b.reason(); why != 0 {
		return why
	}
	return nil
}

func (b binding) Closed(byPeer bool) {
	why := b.reason()
	switch {
	case why != 0:
	case byPeer:
		why = ReasonPeer
	default:
		why = ReasonLocal
	}
	b.closed(why)
}

func (b binding) Hold(by int32)            { b.hold(by) }
func (b binding) CountBacklog(counts bool) { b.setFlag(flagBacklog, counts) }
func (b binding) Begins(begins bool)       { b.setFlag(flagBegins, begins) }

// Binder returns what an adapter calls for the Keeper, or nil for one that New has not made: nil and the zero Keeper
// can keep nobody, and a function that takes a Keeper should refuse both at once. Programs don't need it.
func (k *Keeper) Binder() adapter.Binder {
	if !k.isMade() {
		return nil
	}
	return binder{k}
}

// binder is a Keeper for its adapters.
type binder struct{ *Keeper }

func (b binder) LastWords(conn any, reason net.Error) []byte {
	return b.lastWords(conn, reason.(Reason))
}

func (b binder) SayLastWords(c *os.File, words []byte, asked bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		_ = c.Close()
		return
	}
	b.sayLastWords(c, raw, words, asked)
}

func (b binder) Logger() *slog.Logger { return b.log }

func (b binder) Drain(ctx context.Context, told func()) error { return b.drain(ctx, 0, told) }

// Refuse takes room to be made by an eviction for room.
func (b binder) Refuse() net.Error {
	room := b.policy.Load().Room
	var why Reason
	switch {
	case b.draining.Load():
		why = ReasonDrain
	case room.MaxConns > 0 && room.Full != FullEvict && b.Len() >= room.MaxConns:
		why = ReasonFull
	default:
		return nil
	}
	b.countRefused(why)
	return why
}
