package keepalive

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/seam"
	"github.com/heartwheel-go/heartwheel/pool"
)

// adapter is what stands between a Keeper and the connections of a framework: adapter.Adapter.
type adapter = interface {
	Due(g *Guard)
	Do(ctx context.Context, g *Guard, f func()) error
	Control(g *Guard, f func(fd uintptr)) error
	Peer(g *Guard) net.Addr
	End(g *Guard, farewell []byte, mode CloseMode, timeout time.Duration)
}

// For package adapter.
func init() {
	seam.Set(seam.Funcs[Keeper, Guard, Reason, adapter]{
		Made:        (*Keeper).isMade,
		Guard:       (*Keeper).begin,
		Refuse:      (*Keeper).refuses,
		Keeper:      func(g *Guard) *Keeper { return g.keeper },
		Logger:      func(k *Keeper) *slog.Logger { return k.log },
		Conn:        func(g *Guard) any { return g.conn },
		Scratch:     func(g *Guard) *uint32 { return &g.scratch },
		Heard:       (*Guard).heard,
		Reads:       (*Guard).reads,
		Writes:      (*Guard).writes,
		Tells:       (*Guard).tells,
		Reason:      (*Guard).reason,
		Decide:      (*Guard).visit,
		Identify:    (*Guard).identify,
		Release:     (*Guard).release,
		Closed:      (*Guard).closed,
		Lose:        (*Guard).lose,
		Upgrade:     (*Guard).upgrade,
		Backlog:     func(g *Guard, counts bool) { g.setFlag(flagBacklog, counts) },
		Find:        addFinder,
		Exchanges:   (*Guard).exchanges,
		Exchange:    (*Guard).exchange,
		Begins:      func(g *Guard, begins bool) { g.setFlag(flagBegins, begins) },
		Drain:       func(ctx context.Context, k *Keeper, told func()) error { return k.drain(ctx, 0, told) },
		SocketTells: socketTells,
		MaxLinger:   maxLinger,
	})
}

// begin is guard for an adapter: it also counts a refused connection. The adapter closes it.
func (k *Keeper) begin(g *Guard, conn any, a adapter, remote net.Addr, tells bool) error {
	err := k.guard(g, conn, a, remote, tells)
	k.refuse(err)
	return err
}

// refuses returns why any connection would be refused now, and counts it, or returns 0. Room to be made
// by an eviction is room.
func (k *Keeper) refuses() (why Reason) {
	room := k.policy.Load().Room
	switch {
	case k.draining.Load():
		why = ReasonDrain
	case room.MaxConns > 0 && room.Full != pool.EvictIdlest && k.Len() >= room.MaxConns:
		why = ReasonFull
	default:
		return 0
	}
	k.refuse(why)
	return why
}
