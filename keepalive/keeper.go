package keepalive

import (
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/pool"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// Keeper keeps the deadlines of many connections and closes those whose peers
// fall silent. [New] makes one; [Keeper.Listener], [Keeper.Conn] and package
// gnetkeepalive bring it connections, of any kind at the same time.
//
// All methods may be called by several goroutines at the same time, and from
// OnIdle and OnClose.
type Keeper struct {
	pool     *pool.Pool[any] // of connections, as Touch would be given them
	timeout  time.Duration
	activity Activity
	onIdle   func(conn any) Verdict
	onClose  func(conn any, reason Reason)
	log      *slog.Logger
	panicLog *slog.Logger

	cannotTell sync.Once // warned that ActivityKernel does not work for a connection

	rejected, spared atomic.Uint64
	closed           [len(reasonNames)]atomic.Uint64
	panics           atomic.Uint64
}

// New makes a Keeper and starts its wheel. It returns [ErrArgument], wrapped
// with the values and their limit, where the config asks for something
// impossible.
func New(cfg Config) (*Keeper, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	k := &Keeper{
		timeout:  cfg.Timeout,
		activity: cfg.Activity,
		onIdle:   cfg.OnIdle,
		onClose:  cfg.OnClose,
		log:      cfg.Logger,
		panicLog: cfg.Logger,
	}
	if k.log == nil {
		k.log, k.panicLog = slog.New(slog.DiscardHandler), slog.Default()
	}
	k.pool, err = pool.New(pool.Config[any]{
		Timeout:  cfg.Timeout,
		Capacity: cfg.MaxConns,
		Due:      k.due,
		Wheel: wheel.Config{
			Tick:    cfg.Tick,
			OnPanic: k.reportPanic,
			OnStall: k.reportStall,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return k, nil
}

// Touch is the package function [Touch] for a connection of this Keeper. It
// reports false for those of others.
func (k *Keeper) Touch(conn any) bool {
	g := guardOf(conn)
	return g != nil && k.pool.Has(&g.member) && g.Touch()
}

// Len returns how many connections are guarded.
func (k *Keeper) Len() int { return k.pool.Len() }

// Timeout returns how long a connection may be silent.
func (k *Keeper) Timeout() time.Duration { return k.timeout }

// Activity returns what counts as life.
func (k *Keeper) Activity() Activity { return k.activity }

// Conns returns an iterator over the connections that are guarded when the
// iteration begins, less those that are closed when it reaches them, in no
// particular order.
func (k *Keeper) Conns() iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, conn := range k.pool.All() {
			if !yield(conn) {
				return
			}
		}
	}
}

// Idlest returns the n connections that have been silent for longest, or all
// where there are fewer; see [pool.Pool.Idlest] for what that costs. With
// ActivityKernel it is those whose sockets have not been asked for longest.
func (k *Keeper) Idlest(n int) []any {
	var conns []any
	for _, m := range k.pool.Idlest(n) {
		if conn, ok := m.Value(); ok {
			conns = append(conns, conn)
		}
	}
	return conns
}

// Close ends the Keeper: its connections stay open, unguarded, and so do those
// that come later. OnIdle and OnClose are not called any more. Closing again
// does nothing. It returns nil, always.
func (k *Keeper) Close() error { return k.pool.Close() }

// Stats is what a Keeper has done, at one moment.
type Stats struct {
	Conns    int    // connections that are guarded
	Idle     uint64 // closed because the peer was silent
	Peer     uint64 // closed because the peer had closed, or the connection broke
	Local    uint64 // closed by this program
	Rejected uint64 // closed because there were too many
	Spared   uint64 // not closed because the socket had heard of the peer: with ActivityKernel, lived
	Panics   uint64 // functions of the user that panicked
	Wheel    wheel.Stats
}

// Stats returns the Keeper's figures.
func (k *Keeper) Stats() Stats {
	return Stats{
		Conns:    k.Len(),
		Idle:     k.closed[ReasonIdle].Load(),
		Peer:     k.closed[ReasonPeer].Load(),
		Local:    k.closed[ReasonLocal].Load(),
		Rejected: k.rejected.Load(),
		Spared:   k.spared.Load(),
		Panics:   k.panics.Load(),
		Wheel:    k.pool.Stats(),
	}
}

func (k *Keeper) reportStall(lost time.Duration) {
	k.log.Warn("keepalive: the process was stopped, which counts in nobody's timeout", "lost", lost)
}

func (k *Keeper) reportPanic(value any, stack []byte) {
	k.panics.Add(1)
	k.panicLog.Error("keepalive: callback panicked", "panic", value, "stack", string(stack))
}
