package keepalive

import (
	"fmt"
	"hash/maphash"
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
// OnIdle and OnClose, apart from two that may have to wait for these: Drain, and for a
// connection of gnet RemoteAddr.
type Keeper struct {
	// Shelf is where adapters keep what belongs to a Keeper, by keys of their own types.
	Shelf sync.Map

	pool     *pool.Pool[struct{}]
	policy   atomic.Pointer[policy]
	updating sync.Mutex // held while the policy is replaced
	activity Activity
	log      *slog.Logger
	panicLog *slog.Logger

	shares   pool.Shares
	turns    turns
	pressure pressure
	draining atomic.Bool
	start    time.Time
	closing  chan struct{} // closed by Close
	close    sync.Once
	leaving  atomic.Int64 // connections that are given up and not closed yet

	cannotTell atomic.Bool // warned that ActivityKernel does not work for a connection

	opened, spared, probes, panics atomic.Uint64
	closed, dry                    [reasons]atomic.Uint64
	refused                        refused
	ages, trips                    histogram
	bursts                         bursts
	watchers                       watchers
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
		start:    time.Now(),
		closing:  make(chan struct{}),
		turns:    turns{back: make(chan struct{}, 1)},
		activity: cfg.Activity,
		log:      cfg.Logger,
		panicLog: cfg.Logger,
	}
	if k.log == nil {
		k.log, k.panicLog = slog.New(slog.DiscardHandler), slog.Default()
	}
	k.policy.Store(newPolicy(cfg, 1, maphash.MakeSeed()))
	k.pool, err = pool.New(pool.Config[struct{}]{
		Timeout:  cfg.Timeout,
		Capacity: cfg.MaxConns,
		Full:     cfg.Full,
		MinIdle:  cfg.EvictMinIdle,
		Due:      k.due,
		Evict:    k.evict,
		Limit:    k.limit,
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
	g := guardOf(conn) // not k.guardOf, nor g.Touch below: they would not be inlined
	if g == nil || !k.pool.Has(&g.member) {
		return false
	}
	g.count()
	return g.member.Touch()
}

// Len returns how many connections are guarded.
func (k *Keeper) Len() int { return k.pool.Len() }

// Now returns the number of the tick that the hand of the wheel has reached: for whoever
// wants to know whether it moves.
func (k *Keeper) Now() uint64 { return k.pool.Now() }

// Config returns the config that is in force, with its defaults: so what follows from
// another field, such as ProbeAfter from Timeout, is set there, and stays when that one
// is changed.
func (k *Keeper) Config() Config { return k.policy.Load().Config }

// Timeout returns how long a connection may be silent that has no timeout of its own.
func (k *Keeper) Timeout() time.Duration { return k.policy.Load().Timeout }

// Activity returns what counts as life.
func (k *Keeper) Activity() Activity { return k.activity }

// Conns returns an iterator over the connections that are guarded when the
// iteration begins, less those that are closed when it reaches them, in no
// particular order.
func (k *Keeper) Conns() iter.Seq[any] {
	return func(yield func(any) bool) {
		for m := range k.pool.All() {
			g := guardAt(m)
			if !yield(g.conn) {
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
		conns = append(conns, guardAt(m).conn)
	}
	return conns
}

// Fill returns how full the slots of the Keeper's wheel are, for pages that show it.
func (k *Keeper) Fill() []wheel.Level { return k.pool.Fill() }

// Close ends the Keeper: its connections stay open, unguarded, and so do those
// that come later. OnIdle and OnClose are not called any more, and contexts are done,
// because of [ErrClosed]. Closing again does nothing. It returns nil, always.
func (k *Keeper) Close() error {
	k.close.Do(func() { close(k.closing) })
	var guards []*Guard
	for m := range k.pool.All() {
		guards = append(guards, guardAt(m))
	}
	err := k.pool.Close()
	k.bursts.end(k)
	for _, g := range guards {
		k.forget(g, ErrClosed)
	}
	return err
}

// wouldClose counts a connection that is not closed because of DryRun.
func (k *Keeper) wouldClose(why Reason) {
	k.dry[why].Add(1)
	k.log.Debug("keepalive: would close a connection", "reason", why.String())
}

func (k *Keeper) reportStall(lost time.Duration) {
	k.log.Warn("keepalive: the process was stopped, which counts in nobody's timeout", "lost", lost)
}

func (k *Keeper) reportPanic(value any, stack []byte) {
	k.panics.Add(1)
	k.panicLog.Error("keepalive: callback panicked", "panic", value, "stack", string(stack))
}
