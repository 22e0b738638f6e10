package wheel

import "time"

const (
	// breath is how many chunks the hand visits before it lets others have the lock: some
	// ten microseconds.
	breath = 8

	// stride is the same for ticks with nothing to visit.
	stride = 4096
)

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

// advance brings the wheel up to the clock and returns how long the hand may sleep.
func (w *WheelOf[V]) advance() time.Duration {
	// The tick is published before the wait for the lock, which would make it late.
	// Only the hand changes the pace, but others read it.
	pace := w.pace
	woken := w.since()
	t, stalled := pace.look(woken, w.asleep())
	tick, last := uint64(t/w.clock.tick), w.clock.now.Load()
	var lag time.Duration
	if tick > last {
		// A touch that still took last for the time of day came before this store, so before
		// the second look at the clock.
		w.clock.now.Store(tick)
		left, more := pace.look(w.since(), pace.asleep) // asleep is asked once per waking
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
	if w.pace.grace > 0 { // time stands still, but the hand has to look at the clock
		wait = min(w.pace.grace+wait, w.clock.tick)
	}
	w.mu.Unlock()

	if stalled > 0 && w.onStall != nil {
		go w.call(func() { w.onStall(stalled) })
	}
	return wait
}

// settle visits all slots up to tick, at the wheel's time now. It returns the first
// instant at which one of the timers in w.held may expire. w.mu must be held; settle lets
// go of it in between.
func (w *WheelOf[V]) settle(tick uint64, now time.Duration) (wake time.Duration, ok bool) {
	p := pass[V]{WheelOf: w, tick: tick, begun: w.clock.span(tick), now: now}
	if held := w.held.empty(); held != nil {
		w.taken = append(w.taken, held)
		p.visitTaken()
	}
	for w.hand < tick {
		w.hand++
		// All at once: while the lock is free, a slot that still waits could get entries for
		// the hand's next visit.
		w.taken = w.levels.take(w.hand, w.taken)
		p.visitTaken()
		if w.hand%stride == 0 {
			w.letOthers()
		}
	}
	return p.wake, w.held.first != nil
}

// letOthers lets others have the lock. w.mu must be held.
func (w *WheelOf[V]) letOthers() {
	w.mu.Unlock()
	w.mu.Lock()
}

// pass is one settling of the wheel.
type pass[V any] struct {
	*WheelOf[V]
	tick  uint64        // what is due by then
	begun time.Duration // instant at which tick began
	now   time.Duration // the wheel's time
	wake  time.Duration // first instant at which a timer in held may expire
}

// visitTaken visits the chunks that were taken out of their slots. mu must be held;
// visitTaken lets go of it after each few chunks.
func (p *pass[V]) visitTaken() {
	for visited := 0; len(p.taken) > 0; visited++ {
		if visited == breath {
			visited = 0
			p.employ()
			p.letOthers()
		}
		last := len(p.taken) - 1
		c := p.taken[last]
		if p.taken[last] = c.next; c.next == nil {
			p.taken = p.taken[:last]
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

// visit decides what to do with a pending timer whose entry was just taken out: file it
// again, hold it back for less than a tick, or hand it over.
func (p *pass[V]) visit(t *TimerOf[V]) {
	for {
		old := t.word.Load()
		if p.funcs.Limit == nil || p.funcs.Limit(t.value) > p.begun {
			tick := t.dueTick(old)
			if tick > p.tick {
				p.refiled++
				p.file(t, old)
				return
			}
			if at := p.dueBy(old, tick); at > p.now {
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

// dueBy returns the instant from which a timer is due for certain. After a touch that is
// the tick on which it is due, and as much later as the hand was late in leaving the tick
// of the touch: so much later the touch may have come.
func (p *pass[V]) dueBy(at word, tick uint64) time.Duration {
	if at&rearmed != 0 {
		return p.clock.span(tick)
	}
	return sum(p.clock.span(tick), p.lag.of(touchedTick(at)))
}

// hold keeps a timer for the next pass, which is wanted at the given instant.
func (p *pass[V]) hold(t *TimerOf[V], at time.Duration) {
	if p.held.first == nil || at < p.wake {
		p.wake = at
	}
	p.levels.slots.put(&p.held, 0, t)
}
