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
	defer w.alarm.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-w.alarm.C:
			w.advance()
		}
	}
}

// advance brings the wheel up to the clock, sets the alarm, and returns how long the hand may
// sleep.
func (w *WheelOf[V]) advance() time.Duration {
	woken := w.since()
	now, tick, stalled := w.look(w.asleep()) // before the wait for the lock: the wait is no lag

	w.mu.Lock()
	moves := tick > w.hand
	w.wake = 0 // no filing needs to wake the hand now
	w.help()
	wake := w.settle(tick, now)
	if moves {
		w.passes.Observe(w.since() - woken)
	}
	wait := w.sleepUntil(wake)
	w.mu.Unlock()

	if stalled > 0 && w.onStall != nil {
		go w.call(func() { w.onStall(stalled) })
	}
	return wait
}

// sleepUntil sets the alarm for an instant of the wheel's time, and returns how long it is until
// then. w.mu must be held.
func (w *WheelOf[V]) sleepUntil(wake time.Duration) time.Duration {
	w.wake = wake
	wait := w.waitFor(wake)
	if w.alarm != nil {
		w.alarm.Reset(wait)
	}
	return wait
}

// settle visits all slots up to tick, at the wheel's time now. It returns the instant of
// the hand's next waking. w.mu must be held; settle lets go of it in between.
func (w *WheelOf[V]) settle(tick uint64, now time.Duration) (wake time.Duration) {
	p := pass[V]{WheelOf: w, tick: tick, begun: w.clock.span(tick), now: now}
	p.visitAll(w.held.empty())
	for w.hand < tick {
		w.hand++
		// All at once: while the lock is free, a waiting slot could get entries for the
		// hand's next visit.
		p.visitAll(w.levels.take(w.hand))
		if w.hand%stride == 0 {
			w.letOthers()
		}
	}
	p.lookAhead()
	wake = w.clock.span(p.nextTick())
	if w.held.first != nil {
		wake = min(wake, p.wake)
	}
	return wake
}

// letOthers gives up the lock for a moment. w.mu must be held.
func (w *WheelOf[V]) letOthers() {
	w.mu.Unlock()
	w.mu.Lock()
}

// pass is one settling of the wheel.
type pass[V any] struct {
	*WheelOf[V]
	tick  uint64        // last due tick of this pass
	begun time.Duration // beginning of tick
	now   time.Duration // the wheel's time
	wake  time.Duration // first instant at which a timer in held may expire
	ahead uint64        // tick whose slot lookAhead has taken, or 0
}

// visitAll visits the timers of a list of chunks taken out of their slots. mu must be held;
// visitAll lets go of it after each few chunks.
func (p *pass[V]) visitAll(c *chunk[V]) {
	for visited := 0; c != nil; visited++ {
		if visited == breath {
			visited = 0
			p.employ()
			p.letOthers()
		}
		c.fetch()
		for _, t := range c.entry[:c.n] {
			if t != nil {
				p.visit(t)
			}
		}
		next := c.next
		p.levels.slots.giveBack(c)
		c = next
	}
	p.employ()
}

// visit settles a pending timer after its entry was taken out: file it again, hold it
// back for the lag of its touch, or hand it over.
func (p *pass[V]) visit(t *TimerOf[V]) {
	for {
		old := t.word.Load()
		if p.limit(t) > p.begun {
			tick := t.dueTick(old)
			if tick > p.tick {
				if tick != p.ahead { // it was touched, or moves down
					p.refiled++
				}
				p.file(t, old)
				return
			}
			if at := p.dueBy(t, old); at > p.now {
				if p.held.first == nil || at < p.wake {
					p.wake = at
				}
				p.levels.slots.put(&p.held, 0, t) // for the next pass, wanted at this instant
				return
			}
		}
		if t.word.CompareAndSwap(old, old&^stateMask|due) {
			p.levels.slots.put(&p.backlog.slot, never, t)
			return
		}
	}
}

// dueBy returns the first instant at which a timer with the given word is due for certain.
// After a touch it is the delay and the last instant at which the touch may have come: after
// the end of its tick, if the tick was left late.
func (p *pass[V]) dueBy(t *TimerOf[V], at word) time.Duration {
	if at&rearmed != 0 {
		return p.clock.span(t.until)
	}
	return sum(p.lastOf(touchedTick(at)), p.clock.span(t.delay))
}

// The hand need not wake on a tick without a due timer. But a slot knows only the deadlines
// of its timers at their filing. So the hand goes through the slots of the ticks ahead, and
// files the touched timers again, a little earlier than it had to. The other timers are due
// for certain unless a touch still comes. The hand sleeps until the first of them, and
// wakes earlier if a timer with an earlier visit is filed.

// lookAhead files touched timers of the next ticks again. w.mu must be held; lookAhead lets
// go of it in between.
func (p *pass[V]) lookAhead() {
	if p.sleep == 1 {
		return
	}
	for p.looked = max(p.looked, p.tick); p.looked < p.tick+p.sleep; {
		p.looked++
		p.ahead = p.looked
		p.visitAll(p.levels.slotOf(p.ahead).share(1, p.hand, nil))
	}
}

// nextTick returns the tick of the hand's next waking.
func (p *pass[V]) nextTick() uint64 {
	next := p.tick + 1
	if p.backlog.len > 0 || p.held.first != nil { // workers may need help, a held timer may be moved
		return next
	}
	for next < p.tick+p.sleep && p.levels.slotOf(next).first == nil {
		next++
	}
	return next
}

// rouse makes the hand wake by a tick. w.mu must be held.
func (w *WheelOf[V]) rouse(tick uint64) {
	if at := w.clock.span(tick); at < w.wake {
		w.sleepUntil(at)
	}
}
