package wheel

import (
	"math"
	"time"
)

// The methods below are for the decision about a due timer, by [Funcs].Due or anybody it
// passes the timer on to. [TimerOf.Expire] ends the timer. Rearm and TouchAt give it more
// time. All three do nothing if somebody has touched the timer meanwhile, since it is not
// due then.
//
// A timer touched meanwhile may be due again: after its delay, at its limit, or by HandOver.
// Then somebody else is called to decide, but the three still have their effect. To act only
// on what you saw, call Look, then ExpireSeen or RearmSeen. A timer has one bit for what was
// seen, so one goroutine at a time may do this.

// Rearm gives a due timer until at, an instant of [WheelOf.Time], once: a later Touch goes
// back to the timer's own delay. It does not count as a touch. So a timer can have several
// deadlines, one after the other, all measured from the last touch. An instant in the past
// makes the timer due again on the next tick.
//
// It does nothing, and reports false, if the timer is not due: somebody has touched or ended
// it since it was handed over.
func (t *TimerOf[V]) Rearm(at time.Duration) bool { return t.rearm(at, 0) }

// RearmSeen is Rearm for what the last [TimerOf.Look] saw, whoever has looked. It reports false, too, if
// somebody has touched the timer since that look.
func (t *TimerOf[V]) RearmSeen(at time.Duration) bool { return t.rearm(at, seen) }

func (t *TimerOf[V]) rearm(at time.Duration, bits word) bool {
	return t.locked(func(w *WheelOf[V], old word) bool {
		if !isDue(old, bits) {
			return false
		}
		t.until = w.clock.ticks(at)
		w.keep(t, old&^stateMask|pending|rearmed)
		return true
	})
}

// ExpireSeen is [TimerOf.Expire] for what the last [TimerOf.Look] saw, whoever has looked. It reports
// false, too, if somebody has touched the timer since that look.
func (t *TimerOf[V]) ExpireSeen() (V, bool) { return t.end(expired, seen) }

// TouchAt is a touch in the past: it dates a touch of a due timer at an instant of
// [WheelOf.Time]. The timer is due its own delay after the instant, and not before the next
// tick. If the last touch came later, the last touch counts.
//
// It does nothing, and reports false, if the timer is not due: somebody has touched or ended
// it since it was handed over.
func (t *TimerOf[V]) TouchAt(at time.Duration) bool {
	return t.locked(func(w *WheelOf[V], old word) bool {
		if !isDue(old, 0) {
			return false
		}
		tick, last := min(uint64(max(at, 0)/w.clock.tick), w.clock.now.Load()), touchedTick(old)
		if w.lastOf(last) > at { // it may have been touched later, on a tick left late
			tick = last
		}
		w.keep(t, touchedOn(tick))
		w.saved++
		return true
	})
}

// HandOver hands a pending timer over now, before its deadline. It reports false if the
// timer was handed over already, or has ended.
func (t *TimerOf[V]) HandOver() bool { return t.HandOverIdle(math.MaxInt64) }

// HandOverIdle is HandOver for a timer whose last touch, as Touched tells it, is not later than
// the given instant. Otherwise it reports false, and the deadline stays.
func (t *TimerOf[V]) HandOverIdle(since time.Duration) bool {
	return t.locked(func(w *WheelOf[V], old word) bool {
		for ; old&stateMask == pending && !w.closed.Load() && w.lastOf(touchedTick(old)) <= since; old = t.word.Load() {
			if t.word.CompareAndSwap(old, old&^stateMask|due) {
				w.levels.slots.remove(t, w.hand)
				w.levels.slots.put(&w.backlog.slot, never, t)
				w.employ()
				return true
			}
		}
		return false
	})
}

// IsDue reports whether the timer was handed over and is not decided yet.
func (t *TimerOf[V]) IsDue() bool { return isDue(t.word.Load(), 0) }

// Touched returns the instant of the last touch, by [WheelOf.Time]: of Touch, Move, Start
// or TouchAt. It is never too early, and too late by a tick at most, unless the hand was
// late or slept. quiet reports whether nobody has touched the timer since Move, Rearm or
// Look, and is false for an ended timer. If the timer was never started, Touched returns 0
// and false.
func (t *TimerOf[V]) Touched() (at time.Duration, quiet bool) {
	if word := t.word.Load(); !isRunning(word) && touchedTick(word) == 0 {
		return 0, false // perhaps without a wheel yet
	}
	w := t.wheel
	w.mu.Lock()
	defer w.mu.Unlock()
	word := t.word.Load()
	return w.lastOf(touchedTick(word)), isRunning(word) && isQuiet(word)
}

// SinceTouch returns how long ago the last touch was, in whole ticks, as far as the hand has come. It is 0 for a timer that
// was never started. Unlike [TimerOf.Touched] it takes no lock, and does not look at the clock.
func (t *TimerOf[V]) SinceTouch() time.Duration {
	word := t.word.Load()
	if !isRunning(word) && touchedTick(word) == 0 {
		return 0 // perhaps without a wheel yet
	}
	now := t.wheel.clock.now.Load()
	return t.wheel.clock.span(now - min(now, touchedTick(word)))
}

// Sight is what [TimerOf.Look] sees of a timer. All instants are those of [WheelOf.Time].
type Sight struct {
	From, Touched time.Duration // the last touch was not before From, nor after Touched
	DueAt         time.Duration // the deadline, but for the time by which the hand may be late
	Quiet         bool          // nobody has touched the timer since Move, Rearm or Look
	IsDue         bool          // it was handed over and is not decided yet
}

// Look is Touched and IsDue in one step, for a decision about the timer. From now on, Quiet
// is about the time since this look. Of an ended timer it sees nothing.
func (t *TimerOf[V]) Look() (s Sight) {
	t.locked(func(w *WheelOf[V], old word) bool {
		for !t.word.CompareAndSwap(old, old|seen) {
			old = t.word.Load() // touched meanwhile
		}
		s = Sight{
			From:    w.clock.span(touchedTick(old)),
			Touched: w.lastOf(touchedTick(old)),
			DueAt:   w.clock.span(t.dueTick(old)),
			Quiet:   isQuiet(old),
			IsDue:   isDue(old, 0),
		}
		return true
	})
	return s
}
