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
	handle  executor[handed[V]]
	onStall func(lost time.Duration)
	stop    sync.Once
	quit    chan struct{} // closed to stop the hand
	done    chan struct{} // closed when the hand has gone
	live    atomic.Int64  // pending and due timers

	// mu guards what follows, and in each timer filed, value, and every change
	// of the word but the move to a later tick. It is never held while a
	// function of the user runs, and for at most chunk visits by the hand.
	mu     sync.Mutex
	closed bool

	pace   pace
	lag    lagLog
	hand   uint64 // the tick whose slots were taken last; at most clock.now
	levels levels[V]

	// turn is what has been taken out of the slots of the hand's tick. The
	// entries from turnAt on wait to be visited.
	turn   [][]*TimerOf[V]
	turnAt struct{ vector, entry int }

	// held are timers that are due by the tick, but were perhaps touched a
	// fraction of a tick later than the tick says. Their filed is the tick of the
	// pass that held them back.
	held []*TimerOf[V]

	due     []*TimerOf[V] // handed over, not decided yet
	entries int           // in slots, turn and held, leftovers included
	longest uint64        // ticks that any timer had to wait when it was filed
	broom   broom

	added, expired, saved, refiled, swept uint64

	latest, late time.Duration // of expiries: the worst, and the sum
}

// handed is a timer that is due, with the value that it had then.
type handed[V any] struct {
	timer *TimerOf[V]
	value V
}

// chunk is how many timers the hand visits before it lets others have the lock:
// some ten microseconds.
const chunk = 512

// NewOf starts a wheel. due is called, by the wheel's workers, with each timer
// whose deadline has passed and the timer's value; it decides about the timer
// with [TimerOf.Expire], [TimerOf.Move] or [TimerOf.Remove], at once or later.
// Until then the timer is neither pending nor expired, and a Touch saves it.
func NewOf[V any](cfg Config, due func(t *TimerOf[V], v V)) (*WheelOf[V], error) {
	w, err := newOf(cfg, due)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	w.since = func() time.Duration { return time.Since(start) }
	go w.run()
	return w, nil
}

// newOf makes a wheel whose hand does not move.
func newOf[V any](cfg Config, due func(t *TimerOf[V], v V)) (*WheelOf[V], error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if due == nil {
		return nil, fmt.Errorf("%w: the function for expired timers is nil", ErrArgument)
	}
	w := &WheelOf[V]{
		onStall: cfg.OnStall,
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
		pace:    pace{tick: cfg.Tick, stall: cfg.Stall},
		levels:  makeLevels[V](cfg.Levels),
	}
	w.clock.setTick(cfg.Tick)
	w.handle = executor[handed[V]]{
		run:     func(h handed[V]) { due(h.timer, h.value) },
		workers: cfg.Workers,
		onPanic: cfg.OnPanic,
	}
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
// [ErrArgument] where t is running or has run on another wheel.
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
	if t.wheel != nil && t.wheel != w {
		return fmt.Errorf("%w: timer has been started on another wheel", ErrArgument)
	}
	if isRunning(t.word.Load()) {
		return fmt.Errorf("%w: timer is running", ErrArgument)
	}
	t.wheel = w
	t.value = v
	t.span.Store(uint32(pack(n, spanFloat)))
	next := pendingAt(w.clock.now.Load(), n)
	t.word.Store(next)
	w.file(t, next)
	w.live.Add(1)
	w.added++
	w.sweep(sweepPerAdd)
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
		w.handle.stop()
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
	w.mu.Lock()
	t, stalled := w.pace.look(w.since())
	tick := uint64(t / w.clock.tick)
	if last := w.clock.now.Load(); tick > last {
		// A touch that still took last for the time came before this store, so
		// before the clock is read again.
		w.clock.now.Store(tick)
		w.lag.left(tick, w.pace.at(w.since())-w.clock.span(last+1))
	}
	wake := w.clock.span(tick + 1)
	if at, ok := w.settle(tick, t); ok {
		wake = min(wake, at)
	}
	w.sweep(sweepPerTick)
	wait := w.pace.until(wake, w.since())
	w.mu.Unlock()

	if stalled > 0 && w.onStall != nil {
		w.onStall(stalled)
	}
	return max(wait, 0)
}

// settle visits all slots up to tick, at the wheel's time now. It returns the
// time at which the first of the timers that it holds back may expire. w.mu must
// be held; it is let go in between.
func (w *WheelOf[V]) settle(tick uint64, now time.Duration) (wake time.Duration, ok bool) {
	p := pass[V]{WheelOf: w, tick: tick, now: now}
	if held := w.held; held != nil {
		w.held = nil
		w.turn = append(w.turn, held)
		p.visitTurn()
	}
	for w.hand < tick {
		w.hand++
		// All at once: a slot that waits while the lock is free could get entries
		// for the hand's next visit.
		w.levels.take(w.hand, &w.turn)
		p.visitTurn()
	}
	return p.wake, len(w.held) > 0
}

// pass is one settling of the wheel.
type pass[V any] struct {
	*WheelOf[V]
	tick  uint64        // what is due by then
	now   time.Duration // the wheel's time
	wake  time.Duration // the first time at which a timer in held may expire
	batch []handed[V]
}

// visitTurn visits what has been taken. mu must be held; it is let go after each
// chunk.
func (p *pass[V]) visitTurn() {
	at := &p.turnAt
	for at.vector < len(p.turn) {
		entries := p.turn[at.vector]
		for end := min(at.entry+chunk, len(entries)); at.entry < end; at.entry++ {
			p.entries--
			if t := entries[at.entry]; t.filed == uint32(p.hand) {
				p.visit(t)
			}
		}
		if at.entry == len(entries) {
			p.turn[at.vector] = nil
			at.vector, at.entry = at.vector+1, 0
			p.levels.giveBack(entries)
		}
		p.mu.Unlock()
		p.handle.submit(p.batch)
		p.batch = nil
		p.mu.Lock()
	}
	p.turn, at.vector = p.turn[:0], 0
}

// visit decides what to do with a timer whose entry has just been taken out:
// drop it, file it again, hold it back for less than a tick, or hand it over.
func (p *pass[V]) visit(t *TimerOf[V]) {
	for {
		old := t.word.Load()
		if old&stateMask != pending {
			return
		}
		if dueOf(old) > p.tick {
			p.refiled++
			p.file(t, old)
			return
		}
		if at := p.clock.span(dueOf(old)) + p.lag.between(touchedBetween(old)); at > p.now {
			p.hold(t, at)
			return
		}
		if t.word.CompareAndSwap(old, old&^stateMask|due) {
			t.filed = uint32(len(p.due))
			p.due = append(p.due, t)
			p.batch = append(p.batch, handed[V]{t, t.value})
			return
		}
	}
}

// hold keeps a timer for the next pass, which is wanted at the given time.
func (p *pass[V]) hold(t *TimerOf[V], at time.Duration) {
	if len(p.held) == 0 || at < p.wake {
		p.wake = at
	}
	t.filed = uint32(p.tick)
	p.held = append(p.held, t)
	p.entries++
}

// file makes an entry for a pending timer whose word is at, and which is due
// later than w.hand, and returns its slot. An older entry becomes a leftover.
// w.mu must be held.
func (w *WheelOf[V]) file(t *TimerOf[V], at word) (slot int) {
	slot, visit := w.levels.place(w.hand, dueOf(at))
	t.filed = uint32(visit)
	w.levels.put(slot, t)
	w.entries++
	first, _ := touchedBetween(at)
	w.longest = max(w.longest, dueOf(at)-first)
	return slot
}

// visitOf returns the tick on which the entry of a pending timer is visited.
// w.mu must be held.
func (w *WheelOf[V]) visitOf(t *TimerOf[V]) uint64 {
	return w.hand + uint64(t.filed-uint32(w.hand))
}

// dropDue takes t out of w.due. w.mu must be held.
func (w *WheelOf[V]) dropDue(t *TimerOf[V]) {
	last := len(w.due) - 1
	moved := w.due[last]
	w.due[t.filed] = moved
	moved.filed = t.filed
	w.due[last] = nil
	w.due = w.due[:last]
}

// countExpired records an expiry of a timer that was due on the given tick. w.mu
// must be held.
func (w *WheelOf[V]) countExpired(due uint64) {
	w.expired++
	late := max(0, w.pace.at(w.since())-w.clock.span(due))
	w.late += late
	w.latest = max(w.latest, late)
}
