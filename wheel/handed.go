package wheel

import (
	"math"
	"time"
)

// What follows is for the function that a timer was handed over to, besides
// [TimerOf.Expire]: it gives the timer more time without forgetting when it was
// last touched. So one timer can have several deadlines, one after the other.

// Await gives a timer that was handed over until d after its last touch, for this
// once, and returns its [TimerOf.Stamp]. It reports false, and changes nothing, where
// that has passed already. Where the timer was touched meanwhile, or has ended, there
// is nothing to wait for: it reports true, with a stamp of 0.
func (t *TimerOf[V]) Await(d time.Duration) (stamp uint64, ok bool) {
	return t.await(func(old word) word {
		n := t.wheel.clock.ticks(d)
		if least, most := unpack(old>>spanShift&spanMask, spanMantissa); least <= n && n <= most {
			return old&^stateMask | pending // what it waits for; to compute it again would add up errors
		}
		_, touched := touchedBetween(old)
		return pendingAt(touched, n)
	})
}

// Resume is Await for the deadline that the timer has: for one that was handed over
// before it was due.
func (t *TimerOf[V]) Resume() (stamp uint64, ok bool) {
	return t.await(func(old word) word { return old&^stateMask | pending })
}

func (t *TimerOf[V]) await(deadline func(old word) word) (stamp uint64, ok bool) {
	if !isRunning(t.word.Load()) { // perhaps never started
		return 0, true
	}
	w := t.wheel
	w.mu.Lock()
	defer w.mu.Unlock()
	old := t.word.Load()
	switch old & stateMask {
	case pending:
		w.bringForward(t, old)
	case due:
		next := deadline(old)
		if w.expiresAt(next) <= w.pace.at(w.since()) {
			return 0, false
		}
		w.keep(t, next)
		return next &^ stateMask, true
	}
	return 0, true
}

// Postpone gives a timer that was handed over d more from now, for this once, and
// returns its [TimerOf.Stamp]. When it was touched does not change. It does nothing,
// and reports false, where somebody has touched or ended the timer meanwhile. It asks
// the clock, so that the timer is due again at most one tick after d, not two.
func (t *TimerOf[V]) Postpone(d time.Duration) (stamp uint64, ok bool) {
	w, ok := t.handed()
	if !ok {
		return 0, false
	}
	defer w.mu.Unlock()
	_, touched := touchedBetween(t.word.Load())
	next := pendingAt(touched, w.tickIn(d)-touched-1)
	w.keep(t, next)
	return next &^ stateMask, true
}

// Renew says that a timer that was handed over had been touched, so long ago as the
// argument says. It is due its own delay after that, but at the earliest on the
// next tick. It does nothing, and reports false, where somebody has touched or
// ended the timer meanwhile.
func (t *TimerOf[V]) Renew(ago time.Duration) bool {
	w, ok := t.handed()
	if !ok {
		return false
	}
	defer w.mu.Unlock()
	_, n := unpack(uint64(t.span.Load()), spanFloat)
	_, touched := touchedBetween(t.word.Load())
	at := max(0, w.pace.at(w.since())-ago)
	w.keep(t, pendingAt(max(touched, uint64(at/w.clock.tick)), n))
	w.saved++
	return true
}

// HandOver hands a pending timer over before it is due, so that the wheel's function
// has a look at it. It reports false where the timer has ended, or was handed over
// already.
func (t *TimerOf[V]) HandOver() bool {
	if !isRunning(t.word.Load()) {
		return false
	}
	w := t.wheel
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		old := t.word.Load()
		if old&stateMask != pending || w.closed {
			return false
		}
		if t.word.CompareAndSwap(old, old&^stateMask|due) {
			w.levels.slots.remove(t, w.hand)
			w.backlog.add(t)
			w.employ()
			return true
		}
	}
}

// Retime changes the delay that Touch repeats to d. The deadline stays where it is
// until the next touch.
func (t *TimerOf[V]) Retime(d time.Duration) {
	if t.word.Load()&stateMask == removed {
		return
	}
	w := t.wheel
	w.mu.Lock()
	defer w.mu.Unlock()
	t.span.Store(uint32(pack(w.clock.ticks(d), spanFloat)))
	if at := t.word.Load(); at&stateMask == pending {
		w.bringForward(t, at)
	}
}

// Waits returns how long after its last touch a timer is due: its own delay, unless Move,
// Await or Postpone have said otherwise. Where that is longer than 2^17 ticks it can be
// too little by a 65 thousandth part.
func (t *TimerOf[V]) Waits() time.Duration {
	old := t.word.Load()
	if old&stateMask == removed {
		return 0
	}
	least, _ := unpack(old>>spanShift&spanMask, spanMantissa)
	return t.wheel.clock.span(least)
}

// Stamp returns a number that is another one after the deadline was moved. So one
// that Await or Postpone has returned tells whether the timer was touched since.
func (t *TimerOf[V]) Stamp() uint64 { return t.word.Load() &^ stateMask }

// handed locks the wheel of a timer that was handed over, or reports false. The
// caller unlocks it.
func (t *TimerOf[V]) handed() (w *WheelOf[V], ok bool) {
	if t.word.Load()&stateMask != due {
		return nil, false
	}
	w = t.wheel
	w.mu.Lock()
	if t.word.Load()&stateMask != due {
		w.mu.Unlock()
		return nil, false
	}
	return w, true
}

// keep files a timer that was handed over again, with a new word. w.mu must be held.
func (w *WheelOf[V]) keep(t *TimerOf[V], next word) {
	w.dropDue(t)
	t.word.Store(next)
	w.file(t, next)
}

// expiresAt returns the time from which a timer whose word is at is due for certain:
// the touch may have been later than its tick says, by as much as the hand was late.
// w.mu must be held.
func (w *WheelOf[V]) expiresAt(at word) time.Duration {
	lag := w.lag.between(touchedBetween(at))
	return min(w.clock.span(dueOf(at)), math.MaxInt64-lag) + lag
}

// tickIn returns the number of the first tick that begins when d has passed from this
// very moment; or, while the hand is late, of the one after it. w.mu must be held.
func (w *WheelOf[V]) tickIn(d time.Duration) uint64 {
	next := w.clock.now.Load() + 1
	left := w.clock.span(next) - w.pace.at(w.since())
	if left < 0 { // the hand is late
		return next + w.clock.ticks(d) + w.clock.ticks(-left)
	}
	return next + w.clock.ticks(d-left)
}
