package heartbeat

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// maxBeats bounds the beats being written at the same time. It is as good as no bound: a blocking
// beat must not hold up others, and its own connection's AckTimeout ends it. The wheel only has
// as many workers as are needed.
const maxBeats = 1 << 20

const maxTick = time.Hour

// Config is what a Beater can be told. The zero value is useful.
type Config struct {
	// Tick is how precise the times are: they are never shorter than they should be,
	// and at most two ticks longer. Zero means 100ms; it must not be shorter than
	// 1ms or longer than an hour.
	Tick time.Duration

	// Stall is the shortest time without this process running that is a stall, see
	// wheel.Config. A stall does not count against the server, since nobody could hear it.
	// But it counts in Interval, since the server has been counting all the while. Zero means
	// the longer of a second and ten ticks; negative means no stalls.
	Stall time.Duration

	// Logger gets a line per panic at Error, per stall at Warn, and per connection with failed
	// beats at Debug. Nil means silence.
	Logger *slog.Logger
}

// Beater sends the beats of many connections. It has one timing wheel, and neither a goroutine nor
// a timer per connection: a beat takes a goroutine while it is being written. [New] makes one.
// The package functions [Start] and [Run] share one, as long as there are connections.
//
// All methods are safe for concurrent use, and may be called from the
// functions in Options.
type Beater struct {
	wheel *wheel.WheelOf[*beat]
	tick  time.Duration
	made  chan struct{} // closed when New is done; the wheel runs before
	grace time.Duration // time standing still after a stall
	log   *slog.Logger

	mu     sync.Mutex // guards closed, and keeps starts before it
	closed bool

	beats, unanswered, failed, panics atomic.Uint64
}

// New makes a Beater and starts its wheel. It returns [ErrArgument], wrapped with the value and its
// limit, if the config asks for something impossible.
func New(cfg Config) (*Beater, error) {
	if cfg.Tick > maxTick {
		return nil, fmt.Errorf("%w: Tick %v, must be at most %v", ErrArgument, cfg.Tick, maxTick)
	}
	b := &Beater{log: cfg.Logger, made: make(chan struct{})}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if err := b.turn(cfg, (*beat).limit); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	close(b.made)
	return b, nil
}

// turn makes the wheel.
func (b *Beater) turn(cfg Config, limit func(*beat) time.Duration) error {
	w, err := wheel.NewOf(wheel.Config{
		Tick:    cfg.Tick,
		Stall:   cfg.Stall,
		Workers: maxBeats,
		OnPanic: b.reportPanic,
		OnStall: b.stalled,
	}, wheel.Funcs[*beat]{
		Due:   func(_ *wheel.TimerOf[*beat], x *beat) { x.due() },
		Limit: limit,
	})
	if err != nil {
		return err
	}
	b.wheel, b.tick = w, w.Stats().Tick
	if b.grace = cfg.Stall; b.grace == 0 {
		b.grace = max(time.Second, 10*b.tick)
	}
	return nil
}

// Start begins to send beats on a connection and returns it as a [Conn]. Use the Conn from now on:
// a write to it makes beats unnecessary, and a read from it can be the answer to one. If conn is
// a *Conn, Start returns conn.
//
// The first beat comes after a random part of the interval, unless something is written before:
// clients that connect together should not beat together. The beats end with Conn.Stop and
// Conn.Close, with Close of the Beater, and when they fail; see Conn.Done.
//
// Start returns [ErrArgument], wrapped with the values and their limit, if the options ask for
// something impossible, conn is nil, or its beats have begun already; and [ErrClosed] after
// Close.
func (b *Beater) Start(conn net.Conn, opts Options) (*Conn, error) {
	return b.start(conn, opts, func() {})
}

// Run is Start and waits until the beats end. When ctx is done, it waits for a beat being written,
// and returns ctx.Err(); the connection stays open. If that beat takes longer than AckTimeout,
// Run closes the connection. Otherwise it returns the error of [Conn.Err], and fails as Start
// does. It never returns nil.
//
// Reading and writing go on elsewhere. To have them noticed, pass a Conn from [Wrap], and read
// and write by it.
func (b *Beater) Run(ctx context.Context, conn net.Conn, opts Options) error {
	return run(ctx, conn, opts, b.Start)
}

func run(ctx context.Context, conn net.Conn, opts Options, start func(net.Conn, Options) (*Conn, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c, err := start(conn, opts)
	if err != nil {
		return err
	}
	x := c.beat.Load()
	select {
	case <-ctx.Done():
		if x.end(ctx.Err(), false) {
			x.settle()
		}
	case <-x.done:
	}
	<-x.done
	return x.err()
}

// start is Start. ended is called once when the beats have ended, unless there is an
// error.
func (b *Beater) start(conn net.Conn, opts Options, ended func()) (*Conn, error) {
	if conn == nil || Wrap(conn) == nil || Wrap(conn).inner == nil {
		return nil, fmt.Errorf("%w: conn is nil", ErrArgument)
	}
	opts, delay, err := opts.withDefaults(b.tick)
	if err != nil {
		return nil, err
	}
	c := Wrap(conn)
	x := &beat{
		conn:     c,
		beater:   b,
		opts:     opts,
		timer:    new(wheel.TimerOf[*beat]),
		done:     make(chan struct{}),
		ended:    ended,
		patience: sum(opts.Timeout, b.tick), // heard is the beginning of a tick
		delay:    delay,
	}
	x.heard.Store(int64(b.wheel.Now()))

	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	if before := c.beat.Load(); before != nil && before.err() == nil || !c.beat.CompareAndSwap(before, x) {
		return nil, fmt.Errorf("%w: the beats of this connection have begun already", ErrArgument)
	}
	if err := b.wheel.Start(x.timer, x, delay); err != nil {
		c.beat.Store(nil)
		return nil, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.move(1 + rand.N(delay))
	return c, nil
}

// Close ends the beats of all connections. The connections stay open. Close does not wait for
// beats being written. Closing again does nothing. It always returns nil.
func (b *Beater) Close() error {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.mu.Unlock()
	if first {
		for _, x := range b.wheel.All() {
			x.end(ErrClosed, false)
		}
		b.wheel.Stop()
	}
	return nil
}

// stalled notes that this process did not run for a while. In the wheel's time neither the stall
// nor the grace after it counts, but the servers count both.
func (b *Beater) stalled(lost time.Duration) {
	<-b.made
	b.log.Warn("heartbeat: this process did not run", "for", lost, "conns", b.wheel.Len())
	for t, x := range b.wheel.All() {
		x.behind.Add(int64(lost + b.grace)) // due may not have seen an earlier one yet
		t.HandOver()
	}
}

// in returns the instant d from now, by the wheel's time.
func (b *Beater) in(d time.Duration) int64 { return int64(sum(b.wheel.Time(0), d)) }

// sum returns a+b, neither of them negative, or the longest duration there is.
func sum(a, b time.Duration) time.Duration {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// counted returns how much of the last d counts: less the stalls in it.
func (b *Beater) counted(d time.Duration) time.Duration { return b.wheel.Time(0) - b.wheel.Time(d) }
