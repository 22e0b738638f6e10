package keepalive

import (
	"fmt"
	"hash/maphash"
	"iter"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/cow"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
	"github.com/heartwheel-go/heartwheel/pool"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// Keeper keeps the deadlines of many connections and closes connections with a silent peer.
// [New] makes one. [Keeper.Listener], [Keeper.Conn] and package gnetkeepalive bring it
// connections, of any kind at the same time.
//
// All methods are safe for concurrent use, and may be called from functions of the
// Config, except for Drain and Shed: they would wait for them.
type Keeper struct {
	pool     *pool.Pool[*Guard]
	wheel    *wheel.WheelOf[*Guard] // the pool's
	policy   atomic.Pointer[policy]
	updating sync.Mutex    // held while the policy is replaced
	sleep    time.Duration // how long the wheel's hand may sleep
	seed     maphash.Seed  // of the draws
	log      *slog.Logger
	panicLog *slog.Logger
	stopped  func() time.Duration // the time that rules.Time leaves out: the wheel's Lost, but for tests

	shares   shares
	pace     pace
	gauge    gauge
	draining atomic.Bool
	shutting atomic.Bool  // the same, for a program that closes connections with exchanges itself, see Binder.Drain
	closed   atomic.Bool  // by Close
	unclosed atomic.Int64 // given up, and not closed yet

	cannotTell atomic.Bool // warned of a connection on which ActivityKernel does not work
	slowTold   seldom      // of a slow program
	fullTold   seldom      // of connections without room

	ids         atomic.Uint64 // the last Guard.id
	counts      counts
	ages, trips histogramOf
	refusals    refusals
	watchers    cow.List[*watcher] // without any, an end costs one load
}

// New makes a Keeper and starts its wheel. It returns [ErrArgument], wrapped with the fields,
// their values and their limit, if the config asks for something impossible.
func New(cfg Config) (*Keeper, error) {
	sleeps := cfg.Tick == 0
	cfg, err := cfg.withDefaults()
	if err == nil {
		err = nameChecks(cfg.Checks)
	}
	if err != nil {
		return nil, err
	}
	sleep := cfg.Tick
	if sleeps {
		sleep = max(cfg.Tick, min(maxSleep, cfg.Timeout/10))
	}
	k := &Keeper{
		log:      cfg.Logger,
		panicLog: cfg.Logger,
		sleep:    sleep,
		seed:     maphash.MakeSeed(),
	}
	if k.log == nil {
		k.log, k.panicLog = slog.New(slog.DiscardHandler), slog.Default()
	}
	k.policy.Store(newPolicy(cfg, 1, sleep))
	k.pool, err = pool.New(pool.Config[*Guard]{
		Capacity: cfg.Room.MaxConns,
		Full:     cfg.Room.Full,
		MinIdle:  cfg.Room.evictIdle(cfg.Timeout),
		Due:      func(_ *pool.Member[*Guard], g *Guard) { g.due() },
		Evict:    func(_ *pool.Member[*Guard], g *Guard) { g.evict() },
		Limit:    (*Guard).limit,

		Evictable: func(g *Guard) bool { return !g.isHeld() },
		Wheel: wheel.Config{
			Tick:     cfg.Tick,
			MaxSleep: sleep,
			OnPanic:  k.reportPanic,
			OnStall:  k.reportStall,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	k.wheel = k.pool.Wheel()
	k.stopped = k.wheel.Lost
	return k, nil
}

// isMade reports whether New has made k. Nil and the zero Keeper can keep nobody.
func (k *Keeper) isMade() bool { return k != nil && k.pool != nil }

// must panics for a Keeper that New has not made.
func (k *Keeper) must(do string) {
	if !k.isMade() {
		panic("keepalive: " + do + " needs a Keeper from New")
	}
}

// now returns the wheel's time.
func (k *Keeper) now() rules.Time { return rules.Time(k.wheel.Time(0)) }

// ago returns the wheel's time d ago, or rules.Unknown if d is negative. The wheel's time stands still while the process
// is stopped. The result is never too early. After hundreds of stops it may be too late, by up to a third of d: a dead peer
// is closed after one and a half timeouts at the latest.
func (k *Keeper) ago(d time.Duration) rules.Time {
	if d < 0 {
		return rules.Unknown
	}
	return rules.Time(max(0, k.wheel.Time(d)))
}

// lost returns the time that rules.Time leaves out, in seconds. It wraps around.
func (k *Keeper) lost() uint16 { return uint16(k.stopped() / time.Second) }

// Len returns how many connections are guarded.
func (k *Keeper) Len() int { return k.wheel.Len() }

// Config returns the config in force, with its defaults. A default derived from another field,
// such as Probe.After from Timeout, is a value there: it stays if the other field is changed.
func (k *Keeper) Config() Config {
	cfg := k.policy.Load().Config
	cfg.Checks = slices.Clone(cfg.Checks)
	return cfg
}

// Guards returns an iterator over the connections guarded when the iteration begins, less those closed when it
// reaches them, in no particular order.
func (k *Keeper) Guards() iter.Seq[*Guard] {
	return func(yield func(*Guard) bool) {
		for _, g := range k.wheel.All() {
			if !yield(g) {
				return
			}
		}
	}
}

// Close ends the Keeper: its connections stay open, unguarded, and so do later connections.
// OnIdle and OnClose are not called any more, and contexts are done. Only a farewell that is under
// way goes on: it ends its connection, and OnClose is told. Closing again does nothing. Close always
// returns nil.
func (k *Keeper) Close() error {
	k.closed.Store(true)
	guards := slices.Collect(k.Guards())
	err := k.pool.Close()
	for _, g := range guards {
		g.forget(ErrNotGuarded)
	}
	return err
}

// call runs a function of the user. A panic harms nobody else, and is reported.
func (k *Keeper) call(name string, f func()) {
	defer func() {
		if v := recover(); v != nil {
			k.reportPanic(fmt.Sprintf("%s: %v", name, v), debug.Stack())
		}
	}()
	f()
}

func (k *Keeper) reportPanic(value any, stack []byte) {
	k.counts.panics.Add(1)
	k.panicLog.Error("keepalive: callback panicked", "panic", value, "stack", string(stack))
}

func (k *Keeper) reportStall(lost time.Duration) {
	k.log.Warn("keepalive: the process was stopped, which counts in nobody's timeout", "lost", lost)
}
