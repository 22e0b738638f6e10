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

// maxBeats bounds the beats that are being written at the same time. It is as good as
// no bound: one that blocks must not hold up others, and is ended by its own
// connection's AckTimeout. The wheel only has as many workers as are needed.
const maxBeats = 1 << 20

const maxTick = time.Hour

// Config is what a Beater can be told. The zero value is useful.
type Config struct {
	// Tick is how precise the times are: they are never shorter than they should be,
	// and at most two ticks longer. Zero means 100ms; it must not be shorter than
	// 1ms or longer than an hour.
	Tick time.Duration

	// Stall is the length from which a gap in which this process did not run is a
	// stall, see wheel.Config. What a stall takes is not counted against the server,
	// which had no chance to be heard, but it counts in Interval, since the server
	// has been counting all the while. Zero means a second or ten ticks, whichever is
	// longer; negative means that there are none.
	Stall time.Duration

	// Logger gets a line per panic at Error, per stall at Warn, and per connection
	// whose beats have failed at Debug. Nil means silence.
	Logger *slog.Logger
}

// Beater sends the beats of many connections. It has one timing wheel, and neither a
// goroutine nor a timer per connection: a beat takes a goroutine for as long as it is
// being written. [New] makes one. The package functions [Start] and [Run] share one
// that is there as long as there are connections.
//
// All methods may be called by several goroutines at the same time, and from the
// functions in Options.
type Beater struct {
	wheel *wheel.WheelOf[*beat]
	tick  time.Duration
	made  chan struct{} // closed when New is done; the wheel runs before that
	grace time.Duration // time that stands still after a stall
	log   *slog.Logger

	mu     sync.Mutex // guards closed, and that nothing starts after it
	closed bool

	beats, unanswered, failed, panics atomic.Uint64
}

// New makes a Beater and starts its wheel. It returns [ErrArgument], wrapped with the
// value and its limit, where the config asks for something impossible.
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

// Start begins to send beats on a connection and returns it as a [Conn], which is to
// be used from now on: what is written to it makes beats unnecessary, and what is
// read from it can be the answer to one. A conn that is a *Conn already is that.
//
// The first beat comes after a random part of the interval, unless something is
// written before, so that clients which connect together don't beat together.
// The beats end with Conn.Stop and Conn.Close, with Close of the Beater, and where
// they fail; see Conn.Done.
//
// It returns [ErrArgument], wrapped with the values and their limit, where the
// options ask for something impossible, conn is nil, or its beats have begun already;
// and [ErrClosed] after Close.
func (b *Beater) Start(conn net.Conn, opts Options) (*Conn, error) {
	return b.start(conn, opts, func() {})
}

// Run is Start and waits until the beats end. It returns ctx.Err() when ctx is done,
// after which the connection is still open and no beat is being written to it; one that
// takes longer than AckTimeout after that has the connection closed. nil is never
// returned. Otherwise it returns what [Conn.Err] does, and fails as Start does.
//
// Reading and writing go on elsewhere. Where they are to be noticed, conn must come
// from [Wrap], and they must use what that has returned.
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

// Close ends the beats of all connections, which stay open. Beats that are being
// written then are not waited for. Closing again does nothing. It returns nil, always.
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

// stalled is told that this process did not run for a while. The wheel counts that in
// nobody's time, nor the grace after it, but the servers do.
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
