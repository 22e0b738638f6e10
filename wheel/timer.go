package wheel

import (
	"sync/atomic"
	"time"
)

// A TimerOf is one deadline of a [WheelOf], with the value that is handed over
// when it has passed. It is a plain object of the garbage collector's: nobody
// else ever gets the same one, so a reference that outlives its connection can
// do no harm. It takes 24 bytes and the value, and 9 bytes for its place in a
// slot.
//
// [WheelOf.Add] makes one. It can also be a field of the caller's own struct
// and be started with [WheelOf.Start], once; then it costs no object of its own.
// The zero TimerOf is one that does not run. It must not be copied.
//
// A timer that is pending becomes due when its deadline has passed, and is
// handed to the wheel's function, which decides: [TimerOf.Expire] ends it, and
// up to that moment Touch and Move still save it.
//
// All methods may be called by several goroutines at the same time.
type TimerOf[V any] struct {
	word  atomic.Uint64
	wheel *WheelOf[V] // set by Start, before the word says that the timer runs

	// value is the zero value unless the timer is pending or due. wheel.mu guards it.
	// At the end of the struct it would take 8 bytes where V takes none.
	value V

	// span is the delay in ticks that Touch repeats, packed to 32 bits.
	span atomic.Uint32

	// filed is where the timer is: the place of its entry in a slot while it is
	// pending, and its place in the backlog or among the undecided while it is
	// due. wheel.mu guards it.
	filed uint32
}

// spanFloat is how many bits of TimerOf.span are exact: longer delays than
// 2^27 ticks, which are 37 hours at a tick of 1ms and 155 days at 100ms, are
// rounded up by less than a 60 millionth part.
const spanFloat = 27

// Touch moves the deadline to the timer's delay from now: the heartbeat. It
// reports whether the timer will live until then; false means that it had
// already expired or been removed.
//
// Touching again within the same tick costs three loads, and the first touch in
// a tick a compare-and-swap on top. It takes no lock, unless the timer is due
// and this touch saves it.
func (t *TimerOf[V]) Touch() bool {
	packed := t.span.Load()
	old := t.word.Load()
	if n := uint64(packed); old&stateMask == pending && n < exactSpan {
		next := (t.wheel.clock.now.Load()+n+1)<<dueShift | n<<spanShift | pending
		if old == next {
			return true
		}
		// Perhaps to an earlier tick than that of a Move: the hand comes by within
		// the timer's own delay at any time, see visitBy.
		if t.word.CompareAndSwap(old, next) && t.span.Load() == packed {
			return true
		}
	}
	return t.touch()
}

// touch is Touch for the rare cases: a long delay, a delay that is being
// changed, a timer that is due or has ended, and a lost race.
func (t *TimerOf[V]) touch() bool {
	for {
		packed := t.span.Load()
		_, n := unpack(uint64(packed), spanFloat)
		if !t.move(n) {
			return false
		}
		if t.span.Load() == packed {
			return true
		}
	}
}

// Move moves the deadline to d from now, once: a later Touch goes back to the
// timer's own delay. It reports whether the timer will live until then; false
// means that it had already expired or been removed. With d of zero or less the
// timer is due on the next tick.
//
// Moving to a later deadline takes no lock.
func (t *TimerOf[V]) Move(d time.Duration) bool {
	old := t.word.Load()
	if old&stateMask == removed { // perhaps never started
		return false
	}
	n := t.wheel.clock.ticks(d)
	if old&stateMask == pending {
		next := pendingAt(t.wheel.clock.now.Load(), n)
		if old == next || old < next && t.word.CompareAndSwap(old, next) {
			return true
		}
	}
	return t.move(n)
}

// SetDelay changes the delay that Touch repeats to d, and moves the deadline to
// d from now, be that later or earlier. It reports like Move.
func (t *TimerOf[V]) SetDelay(d time.Duration) bool {
	if t.word.Load()&stateMask == removed {
		return false
	}
	w := t.wheel
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.setDelayLocked(w.clock.ticks(d))
}

// setDelayLocked is SetDelay for a delay of n ticks. wheel.mu must be held.
func (t *TimerOf[V]) setDelayLocked(n uint64) bool {
	t.span.Store(uint32(pack(n, spanFloat))) // before the move, see Touch
	return t.moveLocked(n)
}

// move moves the deadline to n ticks from now.
//
// The entry of a pending timer is visited on its due tick or before. So it may
// stay where it is when that tick becomes a later one.
func (t *TimerOf[V]) move(n uint64) bool {
	for {
		old := t.word.Load()
		switch old & stateMask {
		case removed, expired:
			return false
		case pending:
			next := pendingAt(t.wheel.clock.now.Load(), n)
			if old == next {
				return true
			}
			if old > next {
				return t.moveFiled(n)
			}
			if t.word.CompareAndSwap(old, next) {
				return true
			}
		case due:
			return t.moveFiled(n)
		}
	}
}

// moveFiled moves the deadline to n ticks from now, and the entry with it where
// that would be visited too late.
func (t *TimerOf[V]) moveFiled(n uint64) bool {
	t.wheel.mu.Lock()
	defer t.wheel.mu.Unlock()
	return t.moveLocked(n)
}

// moveLocked is moveFiled. wheel.mu must be held.
func (t *TimerOf[V]) moveLocked(n uint64) bool {
	w := t.wheel
	for {
		old := t.word.Load()
		next := pendingAt(w.clock.now.Load(), n)
		switch old & stateMask {
		case removed, expired:
			return false
		case pending:
			if !t.word.CompareAndSwap(old, next) {
				continue // touched meanwhile
			}
			w.bringForward(t, next)
			return true
		case due:
			w.keep(t, next)
			w.saved++
			return true
		}
	}
}

// reset replaces value, delay and deadline of a running timer.
func (t *TimerOf[V]) reset(v V, d time.Duration) bool {
	t.wheel.mu.Lock()
	defer t.wheel.mu.Unlock()
	if !t.setDelayLocked(t.wheel.clock.ticks(d)) {
		return false
	}
	t.value = v
	return true
}

// Remove ends the timer: it will not become due, and its value is dropped. It
// reports whether the timer was still running.
func (t *TimerOf[V]) Remove() bool {
	_, ok := t.Take()
	return ok
}

// Take is Remove for whoever wants the value.
func (t *TimerOf[V]) Take() (V, bool) {
	return t.end(removed)
}

// Expire ends a timer that is due, and returns its value. It reports whether it
// was this call that ended it: false means that the timer has been moved or
// removed since it became due, or that its expiry was decided by somebody else.
func (t *TimerOf[V]) Expire() (V, bool) {
	return t.end(expired)
}

func (t *TimerOf[V]) end(state word) (V, bool) {
	var zero V
	if !isRunning(t.word.Load()) {
		return zero, false
	}
	w := t.wheel
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		old := t.word.Load()
		switch old & stateMask {
		case removed, expired:
			return zero, false
		case pending:
			if state == expired {
				return zero, false
			}
			if !t.word.CompareAndSwap(old, old&^stateMask|state) {
				continue // moved
			}
			w.levels.slots.remove(t, w.hand)
		case due:
			w.dropDue(t)
			t.word.Store(old&^stateMask | state)
		}
		if state == expired {
			w.countExpired(dueOf(old))
		}
		v := t.value
		t.value = zero
		w.live.Add(-1)
		if w.ended != nil {
			w.ended()
		}
		return v, true
	}
}

// Delay returns the delay that Touch repeats, in whole ticks.
func (t *TimerOf[V]) Delay() time.Duration {
	if t.word.Load()&stateMask == removed {
		return 0
	}
	_, n := unpack(uint64(t.span.Load()), spanFloat)
	return t.wheel.clock.span(n)
}

// Left returns how long it is until the deadline: at least 0, and 0 also for a
// timer that does not run.
func (t *TimerOf[V]) Left() time.Duration {
	old := t.word.Load()
	if old&stateMask != pending {
		return 0
	}
	now := t.wheel.clock.now.Load()
	return t.wheel.clock.span(dueOf(old) - min(now, dueOf(old)))
}

// IsDue reports whether the deadline has passed and the timer is not decided yet.
func (t *TimerOf[V]) IsDue() bool { return t.word.Load()&stateMask == due }

// Idle returns how long ago the timer was touched, moved or started, in whole ticks,
// or 0 for one that does not run. Where the delay is longer than 2^17 ticks, 3.6
// hours at a tick of 100ms, it can be too little by a 65 thousandth part of the
// delay.
func (t *TimerOf[V]) Idle() time.Duration {
	old := t.word.Load()
	if !isRunning(old) {
		return 0
	}
	now := t.wheel.clock.now.Load()
	_, last := touchedBetween(old)
	return t.wheel.clock.span(now - min(now, last))
}

// DueTick returns the number of the tick on which the timer is or was due. It
// tells whether the deadline has been moved between two looks.
func (t *TimerOf[V]) DueTick() uint64 { return dueOf(t.word.Load()) }

// Value returns the timer's value, and whether the timer is running.
func (t *TimerOf[V]) Value() (V, bool) {
	if !isRunning(t.word.Load()) {
		var zero V
		return zero, false
	}
	w := t.wheel
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.value, isRunning(t.word.Load())
}
