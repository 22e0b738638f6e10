package wheel

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel/histogram"
)

// WheelOf is the engine: timers with a value of type V, and a function for the due ones.
// [NewOf] makes one. Most programs are better served by [Wheel] or [TimingWheel].
//
// One goroutine, the hand, visits the slots tick by tick, and gives due timers to a bounded
// number of workers. It wakes once per tick, or sleeps for some ticks if Config.MaxSleep
// allows it. It runs no function of the user except Funcs.Limit, and holds no lock while
// Funcs.Due runs. So Due may block, panic, and call any method of the wheel.
//
// All methods are safe for concurrent use.
type WheelOf[V any] struct {
	times

	funcs   Funcs[V]
	onStall func(lost time.Duration)
	onPanic func(value any, stack []byte)
	quit    chan struct{} // closed to stop the hand
	done    chan struct{} // closed when the hand has gone
	closed  atomic.Bool   // since Stop; changed under mu
	live    atomic.Int64  // pending and due timers
	panics  atomic.Uint64

	// mu guards the fields below. In each timer it guards filed, value, until, delay
	// and every change of the word but the touch of a pending timer. No function of
	// the user runs under mu, except Funcs.Limit and Funcs.Ended. The hand holds mu for at
	// most breath chunks at a time.
	mu sync.Mutex

	hand   uint64 // the tick of the slots taken last; at most clock.now
	levels levels[V]

	sleep  uint64        // longest sleep of the hand, in ticks; at least 1
	looked uint64        // last tick with its touched timers filed again
	wake   time.Duration // next waking of the hand, by the wheel's time
	alarm  *time.Timer   // wakes the hand; nil in a wheel without a hand

	// held are timers after the beginning of their due tick, but not due for certain: their
	// touch may have come after the end of its tick, by the tick's lag. The next pass
	// visits them.
	held slot[V]

	// A due timer is in the backlog until a worker takes it up, and then among the undecided.
	backlog   queue[V]
	undecided slot[V]
	workers   workers

	added, expired, saved, refiled uint64

	late   histogram.Durations // of expiries
	passes histogram.Durations // work of the hand
}

// Funcs are the functions called by an engine. Due is required.
type Funcs[V any] struct {
	// Due is called by one of the wheel's workers with each due timer, and its value. It
	// ends the timer with [TimerOf.Expire], or gives it more time with [TimerOf.Rearm] or
	// [TimerOf.TouchAt], at once or later. Until then the timer is neither pending nor
	// expired, and a Touch saves it. A saved timer may become due again while the call
	// before is still running: if they take long, let one decide at a time, and see
	// [TimerOf.ExpireSeen]. A timer whose call panics stays due
	// until somebody ends, rearms or touches it.
	Due func(t *TimerOf[V], v V)

	// Limit, if not nil, returns a deadline by [WheelOf.Time] that touches do not extend: from then
	// on the hand hands the timer over on each visit, even if the timer is not due. The
	// visit comes at the limit. If the limit has become an earlier one since the last visit,
	// the next one comes within the timer's delay, or at once by [TimerOf.HandOver]. At its limit,
	// a timer stays due if it is touched before a worker calls Due. Limit is
	// called while the wheel is locked: it must be quick and must not call the wheel.
	Limit func(v V) time.Duration

	// Ended, if not nil, is called each time a timer has expired or been removed. It is
	// called while the wheel is locked: it must be quick and must not call the wheel.
	Ended func()
}

// NewOf starts a wheel. It returns [ErrArgument], wrapped with the value and its limit, if
// the config asks for something impossible, or Due is nil.
func NewOf[V any](cfg Config, funcs Funcs[V]) (*WheelOf[V], error) {
	w, err := newOf(cfg, funcs)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	w.begin(func() time.Duration { return time.Since(start) }, asleep)
	return w, nil
}

// begin sets the clocks and starts the hand.
func (w *WheelOf[V]) begin(since, asleep func() time.Duration) {
	before := asleep()
	w.since, w.asleep = since, func() time.Duration { return asleep() - before }
	w.alarm = time.NewTimer(w.clock.tick)
	go w.run()
}

// newOf makes a wheel without a hand. Its clock stands still.
func newOf[V any](cfg Config, funcs Funcs[V]) (*WheelOf[V], error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if funcs.Due == nil {
		return nil, fmt.Errorf("%w: Due is nil", ErrArgument)
	}
	if funcs.Ended == nil {
		funcs.Ended = func() {}
	}
	w := &WheelOf[V]{
		funcs:   funcs,
		onStall: cfg.OnStall,
		onPanic: cfg.OnPanic,
		workers: workers{most: cfg.Workers},
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
		levels:  makeLevels[V](cfg.Levels),
		sleep:   min(max(1, uint64(cfg.MaxSleep/cfg.Tick)), uint64(cfg.Levels[0])),
	}
	w.levels.early = w.sleep - 1
	w.clock.setTick(cfg.Tick)
	w.clock.sleeps = w.sleep > 1
	w.since = func() time.Duration { return 0 }
	w.asleep = w.since
	w.pace = pace{sleep: w.clock.span(w.sleep), stall: cfg.Stall}
	return w, nil
}

// Start starts a timer, due d from now. It returns [ErrArgument] if d is not positive, or
// if t has been started before: a timer is started once, and an ended one stays so. It
// returns [ErrClosed] after Stop.
func (w *WheelOf[V]) Start(t *TimerOf[V], v V, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%w: delay %v, must be positive", ErrArgument, d)
	}
	return w.start(t, v, w.clock.ticks(d))
}

func (w *WheelOf[V]) start(t *TimerOf[V], v V, delay uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed.Load() {
		return ErrClosed
	}
	if !t.word.CompareAndSwap(unstarted, removed) {
		return fmt.Errorf("%w: timer has been started before", ErrArgument)
	}
	w.Now()
	t.wheel = w
	t.value = v
	t.delay = delay
	first := touchedOn(w.clock.now.Load())
	t.word.Store(first)
	w.file(t, first)
	w.live.Add(1)
	w.added++
	return nil
}

// Len returns how many timers are running: pending, or due and not decided.
func (w *WheelOf[V]) Len() int { return int(w.live.Load()) }

// Stop ends all timers without running them and waits until the hand has gone. It does not
// wait for running functions. It may be called more than once, and from such a function.
func (w *WheelOf[V]) Stop() {
	w.mu.Lock()
	if !w.closed.Swap(true) {
		close(w.quit)
	}
	w.mu.Unlock()
	<-w.done
	for _, t := range w.timers() {
		t.Remove()
	}
}

// sum returns a + d, or the longest Duration if the sum is longer. Only d may be negative.
func sum(a, d time.Duration) time.Duration {
	if d > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + d
}
