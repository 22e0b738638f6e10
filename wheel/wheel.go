package wheel

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// WheelOf is the engine: timers that carry a value of type V, and a function
// that is told when one is due. [NewOf] makes one; most programs are better
// served by [Wheel] or [TimingWheel].
//
// One goroutine, the hand, wakes once per tick. It visits the slots whose tick
// has come, and gives what is due there to a bounded number of workers. It never
// runs a function of the user itself and holds no lock while one runs, so such a
// function may block, panic, and call any method of the wheel.
//
// All methods may be called by several goroutines at the same time.
type WheelOf[V any] struct {
	clock clock // what touches read

	since   func() time.Duration // time since the start
	asleep  func() time.Duration // suspended without being in since, from whenever on
	handle  func(t *TimerOf[V], v V)
	onStall func(lost time.Duration)
	onPanic func(value any, stack []byte)
	stop    sync.Once
	quit    chan struct{} // closed to stop the hand
	done    chan struct{} // closed when the hand has gone
	live    atomic.Int64  // pending and due timers
	panics  atomic.Uint64

	// mu guards what follows, and in each timer filed, value, and every change
	// of the word but the move to a later tick. It is never held while a
	// function of the user runs, and for at most breath chunks by the hand.
	mu     sync.Mutex
	closed bool

	pace   pace
	lag    lagLog
	hand   uint64 // the tick whose slots were taken last; at most clock.now
	levels levels[V]

	// turn is what has been taken out of the slots of the hand's tick, and waits
	// to be visited.
	turn []*chunk[V]

	// held are timers that are due by the tick, but were perhaps touched a
	// fraction of a tick later than the tick says. The next pass visits them.
	held slot[V]

	backlog   backlog[V]
	undecided undecided[V]
	workers   workers

	longest uint64 // ticks that any timer had to wait since its touch when it was filed

	limit func(t *TimerOf[V], v V) (tick uint64) // nil, or see SetLimit
	ended func()                                 // nil, or see OnEnd

	added, expired, saved, refiled uint64

	late   Histogram // of expiries
	passes Histogram // how long the hand took
}

const (
	// breath is how many chunks the hand visits before it lets others have the
	// lock: some ten microseconds.
	breath = 8

	// stride is the same for ticks on which there is nothing to visit.
	stride = 4096
)

// NewOf starts a wheel. due is called, by the wheel's workers, with each timer
// whose deadline has passed and the timer's value. It ends the timer with
// [TimerOf.Expire], or gives it more time with [TimerOf.Postpone], at once or
// later. Until then the timer is neither pending nor expired, and a Touch saves
// it. A timer that was saved may become due again, and due be called with it
// again, while the call before is still running.
func NewOf[V any](cfg Config, due func(t *TimerOf[V], v V)) (*WheelOf[V], error) {
	w, err := newOf(cfg, due)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	w.begin(func() time.Duration { return time.Since(start) }, asleep)
	return w, nil
}

// begin sets the clocks and starts the hand.
func (w *WheelOf[V]) begin(since, asleep func() time.Duration) {
	w.since, w.asleep = since, asleep
	w.pace.asleep = asleep() // before the start, which is nobody's stall
	go w.run()
}

// newOf makes a wheel whose hand does not move, on a machine that never sleeps.
func newOf[V any](cfg Config, due func(t *TimerOf[V], v V)) (*WheelOf[V], error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if due == nil {
		return nil, fmt.Errorf("%w: the function for expired timers is nil", ErrArgument)
	}
	w := &WheelOf[V]{
		asleep:  func() time.Duration { return 0 },
		handle:  due,
		onStall: cfg.OnStall,
		onPanic: cfg.OnPanic,
		workers: workers{most: cfg.Workers},
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
		pace:    pace{tick: cfg.Tick, stall: cfg.Stall},
		levels:  makeLevels[V](cfg.Levels),
	}
	w.clock.setTick(cfg.Tick)
	return w, nil
}

// Add starts a timer that is due d from now. It returns [ErrArgument] where d is
// not positive, and [ErrClosed] after Stop.
func (w *WheelOf[V]) Add(v V, d time.Duration) (*TimerOf[V], error) {
	t := new(TimerOf[V])
	if err := w.Start(t, v, d); err != nil {
		return nil, err
	}
	return t, nil
}

// Start is Add for a timer whose memory is the caller's. It returns
// [ErrArgument] where t has been started before: a timer that has ended stays
// so, and a reference that somebody has kept of it can do no harm.
func (w *WheelOf[V]) Start(t *TimerOf[V], v V, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%w: delay %v, must be positive", ErrArgument, d)
	}
	return w.start(t, v, w.clock.ticks(d))
}

func (w *WheelOf[V]) start(t *TimerOf[V], v V, n uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	if !t.word.CompareAndSwap(0, claimed) {
		return fmt.Errorf("%w: timer has been started before", ErrArgument)
	}
	t.wheel = w
	t.value = v
	t.span.Store(uint32(pack(n, spanFloat)))
	next := pendingAt(w.clock.now.Load(), n)
	t.word.Store(next)
	w.file(t, next)
	w.live.Add(1)
	w.added++
	return nil
}

// Len returns how many timers are running: pending, or due and not decided.
func (w *WheelOf[V]) Len() int { return int(w.live.Load()) }

// Has reports whether t is running on this wheel.
func (w *WheelOf[V]) Has(t *TimerOf[V]) bool {
	return isRunning(t.word.Load()) && t.wheel == w
}

// Tick returns the length of a tick.
func (w *WheelOf[V]) Tick() time.Duration { return w.clock.tick }

// Counted returns how much of the last d counts in the delays of timers: d less the
// stalls in it, and the graces after them, see [Config.Stall].
func (w *WheelOf[V]) Counted(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pace.counted(w.since(), d)
}

// SetLimit gives each timer a limit besides its deadline, which no touch moves: a
// timer t with the value v is handed over on the tick that limit(t, v) returns, even if
// it is not due, and again on each tick until the limit is a later one. The number
// of the present tick is that of [WheelOf.Now]. On a wheel with limits, a timer that
// waits for longer than its own delay, because of Await, Postpone or Move, is also handed
// over once in each such delay: the one to whom it is handed over can then change its
// mind, or say [TimerOf.Resume].
//
// limit is called while the wheel is locked: it must be quick and must not call
// the wheel. A limit that has become earlier is noticed when the hand comes by,
// which it does within the timer's delay, or with [TimerOf.HandOver].
func (w *WheelOf[V]) SetLimit(limit func(t *TimerOf[V], v V) (tick uint64)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = limit
}

// OnEnd has f called each time that a timer has expired or been removed. f is called
// while the wheel is locked: it must be quick and must not call the wheel.
func (w *WheelOf[V]) OnEnd(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = f
}

// Now returns the number of the tick that the hand has reached.
func (w *WheelOf[V]) Now() uint64 { return w.clock.now.Load() }

// TickIn returns the number of a tick that begins when d has passed from now, the first
// or, while the hand is late, the one after it. It asks the clock: counted from Now it
// could be too early by as much as the hand is late.
func (w *WheelOf[V]) TickIn(d time.Duration) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tickIn(d)
}

// Stop ends all timers without running them and waits until the hand has gone.
// Functions that are running then are not waited for. It may be called more than
// once, and from such a function.
func (w *WheelOf[V]) Stop() {
	w.stop.Do(func() {
		w.mu.Lock()
		w.closed = true
		w.mu.Unlock()
		close(w.quit)
		<-w.done
		for _, t := range w.All() {
			t.Remove()
		}
	})
}

// run is the hand.
func (w *WheelOf[V]) run() {
	defer close(w.done)
	timer := time.NewTimer(w.clock.tick)
	defer timer.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-timer.C:
			timer.Reset(w.advance())
		}
	}
}

// advance brings the wheel up to the clock and returns how long it may sleep.
func (w *WheelOf[V]) advance() time.Duration {
	// The tick is published before there is a wait for the lock, which would make
	// it late. Nobody but the hand changes the pace, but others read it.
	pace := w.pace
	woken := w.since()
	t, stalled := pace.look(woken, w.asleep())
	tick, last := uint64(t/w.clock.tick), w.clock.now.Load()
	var lag time.Duration
	if tick > last {
		// A touch that still took last for the time came before this store, so
		// before the clock is read again.
		w.clock.now.Store(tick)
		left, more := pace.look(w.since(), pace.asleep) // asked once per waking
		lag = left - w.clock.span(last+1)
		stalled += more
	}

	w.mu.Lock()
	w.pace = pace
	if tick > last {
		w.lag.left(tick, lag)
	}
	w.help()
	wake := w.clock.span(tick + 1)
	if at, ok := w.settle(tick, t); ok {
		wake = min(wake, at)
	}
	done := w.since()
	if tick > last {
		w.passes.Observe(done - woken)
	}
	wait := max(0, wake-w.pace.at(done))
	if w.pace.grace > 0 { // time stands still, and has to be looked at all the same
		wait = min(w.pace.grace+wait, w.clock.tick)
	}
	w.mu.Unlock()

	if stalled > 0 && w.onStall != nil {
		go w.call(func() { w.onStall(stalled) })
	}
	return wait
}

// settle visits all slots up to tick, at the wheel's time now. It returns the
// time at which the first of the timers that it holds back may expire. w.mu must
// be held; it is let go in between.
func (w *WheelOf[V]) settle(tick uint64, now time.Duration) (wake time.Duration, ok bool) {
	p := pass[V]{WheelOf: w, tick: tick, now: now}
	if held := w.held.empty(); held != nil {
		w.turn = append(w.turn, held)
		p.visitTurn()
	}
	for w.hand < tick {
		w.hand++
		// All at once: a slot that waits while the lock is free could get entries
		// for the hand's next visit.
		w.turn = w.levels.take(w.hand, w.turn)
		p.visitTurn()
		if w.hand%stride == 0 {
			w.letOthers()
		}
	}
	return p.wake, w.held.first != nil
}

// letOthers lets those have the lock who wait for it. w.mu must be held.
func (w *WheelOf[V]) letOthers() {
	w.mu.Unlock()
	w.mu.Lock()
}

// pass is one settling of the wheel.
type pass[V any] struct {
	*WheelOf[V]
	tick uint64        // what is due by then
	now  time.Duration // the wheel's time
	wake time.Duration // the first time at which a timer in held may expire
}

// visitTurn visits what has been taken. mu must be held; it is let go after each
// few chunks.
func (p *pass[V]) visitTurn() {
	for visited := 0; len(p.turn) > 0; visited++ {
		if visited == breath {
			visited = 0
			p.employ()
			p.letOthers()
		}
		last := len(p.turn) - 1
		c := p.turn[last]
		if p.turn[last] = c.next; c.next == nil {
			p.turn = p.turn[:last]
		}
		c.fetch()
		for _, t := range c.entry[:c.n] {
			if t != nil {
				p.visit(t)
			}
		}
		p.levels.slots.giveBack(c)
	}
	p.employ()
}

// visit decides what to do with a pending timer whose entry has just been taken
// out: file it again, hold it back for less than a tick, or hand it over.
func (p *pass[V]) visit(t *TimerOf[V]) {
	for {
		old := t.word.Load()
		if p.limit == nil || p.limit(t, t.value) > p.tick && !waitsLonger(t, old) {
			if dueOf(old) > p.tick {
				p.refiled++
				p.file(t, old)
				return
			}
			if at := p.expiresAt(old); at > p.now {
				p.hold(t, at)
				return
			}
		}
		if t.word.CompareAndSwap(old, old&^stateMask|due) {
			p.backlog.add(t)
			return
		}
	}
}

// waitsLonger reports whether a timer whose word is at waits for longer than its own
// delay.
func waitsLonger[V any](t *TimerOf[V], at word) bool {
	_, own := unpack(uint64(t.span.Load()), spanFloat)
	least, _ := unpack(at>>spanShift&spanMask, spanMantissa)
	return least > own
}

// hold keeps a timer for the next pass, which is wanted at the given time.
func (p *pass[V]) hold(t *TimerOf[V], at time.Duration) {
	if p.held.first == nil || at < p.wake {
		p.wake = at
	}
	p.levels.slots.put(&p.held, 0, t)
}

// file makes the entry of a pending timer whose word is at, and returns its slot.
// w.mu must be held.
func (w *WheelOf[V]) file(t *TimerOf[V], at word) (slot int) {
	first, _ := touchedBetween(at)
	visit := w.visitBy(t, at) // which may be after due, if that is in the past
	w.longest = max(w.longest, max(dueOf(at), visit)-first)
	return w.levels.file(t, w.hand, visit)
}

// visitBy returns the tick on which the hand has to come to a timer whose word is at,
// which is later than w.hand:
//
//   - on its due tick, or its limit,
//   - and within its own delay in any case, so that a touch, which makes it due its
//     own delay from now, never has to move the entry. w.mu must be held.
func (w *WheelOf[V]) visitBy(t *TimerOf[V], at word) uint64 {
	_, n := unpack(uint64(t.span.Load()), spanFloat)
	by := min(dueOf(at), dueOf(pendingAt(w.clock.now.Load(), n)))
	if w.limit != nil {
		by = min(by, w.limit(t, t.value))
	}
	return max(by, w.hand+1)
}

// bringForward moves the entry of a pending timer whose word is at where it would
// be visited too late. w.mu must be held.
func (w *WheelOf[V]) bringForward(t *TimerOf[V], at word) {
	if s := &w.levels.slots; w.visitBy(t, at) < s.visitOf(t) {
		s.remove(t, w.hand)
		w.file(t, at)
	}
}

// dropDue takes t out of where due timers are. w.mu must be held.
func (w *WheelOf[V]) dropDue(t *TimerOf[V]) {
	if w.backlog.has(t) {
		w.backlog.remove(t)
	} else {
		w.undecided.remove(t)
	}
}

// dueLen returns how many timers are due. w.mu must be held.
func (w *WheelOf[V]) dueLen() int { return w.backlog.len() + len(w.undecided) }

// countExpired records an expiry of a timer that was due on the given tick. w.mu
// must be held.
func (w *WheelOf[V]) countExpired(due uint64) {
	w.expired++
	late := max(0, w.pace.at(w.since())-w.clock.span(due))
	w.late.Observe(late)
}
