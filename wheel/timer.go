package wheel

import (
	"sync/atomic"
	"time"
)

// A TimerOf is one deadline of a [WheelOf], with the value to hand over once the deadline
// has passed. It is an ordinary object on the heap and never used again, so a reference
// kept after the end of the connection does no harm. It takes 40 bytes and the value, and 9
// bytes for its place in a slot.
//
// A TimerOf can be a field of the caller's own struct. [WheelOf.Start] starts it, once. The
// zero TimerOf does not run. It must not be copied.
//
// Once its deadline has passed, a timer is due: the wheel hands it to [Funcs].Due, and
// [TimerOf.Expire] ends it. Until then Touch and Move still save it, but see [Funcs].Limit.
//
// All methods are safe for concurrent use.
type TimerOf[V any] struct {
	word  atomic.Uint64
	wheel *WheelOf[V] // set by Start, before the word says pending
	delay uint64      // in ticks; guarded by wheel.mu

	// filed is the place of a running timer's entry. wheel.mu guards it.
	filed uint32

	// value is the zero value unless the timer runs. wheel.mu guards it.
	// It is not the last field: Go pads one without a size to 8 bytes.
	value V

	until uint64 // the deadline of a rearmed timer, a tick; guarded by wheel.mu
}

// Touch moves the deadline to the timer's delay from now: the heartbeat. It reports whether
// the timer will live until then. False means: it had already expired or been removed.
//
// A second touch in the same tick costs two loads, and the first a compare-and-swap on top.
// Touch takes no lock, unless the timer is due. It does not ask the clock: "now" is the
// published tick, see [WheelOf.Now].
func (t *TimerOf[V]) Touch() bool {
	for {
		switch old := t.word.Load(); old & stateMask {
		case pending:
			next := touchedOn(t.wheel.clock.now.Load())
			if old == next || t.word.CompareAndSwap(old, next) {
				return true
			}
		case due:
			return t.save()
		default:
			return false
		}
	}
}

// save is Touch for a due timer. In line it would cost each touch a larger frame.
//
//go:noinline
func (t *TimerOf[V]) save() bool {
	return t.locked(func(*WheelOf[V], word) bool { return t.set(0) })
}

// locked calls f for a running timer, under the lock of its wheel and with the timer's word:
// only a touch of a pending timer can change the word meanwhile. It returns what f returns, or
// false if the timer does not run.
func (t *TimerOf[V]) locked(f func(w *WheelOf[V], old word) bool) bool {
	if !isRunning(t.word.Load()) {
		return false // perhaps without a wheel yet
	}
	w := t.wheel
	w.mu.Lock()
	defer w.mu.Unlock()
	old := t.word.Load()
	return isRunning(old) && f(w, old)
}

// Move moves the deadline to d from now, once: a later Touch goes back to the timer's own
// delay. It reports whether the timer will live until then. False means: it had already
// expired or been removed. With d of zero or less the timer is due on the next tick. It
// asks the clock and takes the wheel's lock.
func (t *TimerOf[V]) Move(d time.Duration) bool {
	return t.locked(func(w *WheelOf[V], _ word) bool {
		t.until = w.clock.ticks(sum(w.Time(0), max(d, 0)))
		return t.set(rearmed)
	})
}

// SetDelay changes the delay of later touches, and the deadline with it: d after the last
// touch. After Move or [TimerOf.Rearm] the deadline stays. It reports whether the timer is
// running. A due timer stays due. With d of zero or less each touch makes the timer due on the
// next tick.
func (t *TimerOf[V]) SetDelay(d time.Duration) bool {
	return t.locked(func(w *WheelOf[V], old word) bool {
		t.delay = w.clock.ticks(d)
		if old&stateMask == pending {
			w.bringForward(t, old)
		}
		return true
	})
}

// set touches a running timer, with the rearmed bit or without, and returns true. wheel.mu
// must be held.
func (t *TimerOf[V]) set(bit word) bool {
	w := t.wheel
	w.Now()
	for {
		old := t.word.Load()
		next := touchedOn(w.clock.now.Load()) | bit
		if old&stateMask == pending {
			if !t.word.CompareAndSwap(old, next) {
				continue
			}
			w.bringForward(t, next)
			return true
		}
		if w.levels.slots.chunkOf(t).slot == &w.backlog.slot && w.limit(t) <= w.clock.span(w.clock.now.Load()) {
			t.word.Store(next&^stateMask | due) // the worker on its way to it sees the touch
			return true
		}
		w.keep(t, next)
		w.saved++
		return true
	}
}

// Remove ends the timer: it will not become due. It returns the timer's value, and reports
// whether the timer was still running.
func (t *TimerOf[V]) Remove() (V, bool) { return t.end(removed, 0) }

// Expire ends a due timer, and returns its value. It reports whether this call ended the
// timer. False means: the timer is not due, or no longer, since somebody has touched,
// moved, removed or expired it. A timer touched and due again is due, see
// [TimerOf.ExpireSeen].
func (t *TimerOf[V]) Expire() (V, bool) { return t.end(expired, 0) }

// end ends a timer. To expire, the timer must be due, and its word have all of the given bits.
func (t *TimerOf[V]) end(state, bits word) (v V, ok bool) {
	ok = t.locked(func(w *WheelOf[V], old word) bool {
		if state == expired && !isDue(old, bits) {
			return false
		}
		for !t.word.CompareAndSwap(old, old&^stateMask|state) {
			old = t.word.Load() // touched meanwhile
		}
		w.levels.slots.remove(t, w.hand)
		if state == expired {
			w.expired++
			if late := w.Time(0) - w.clock.span(t.dueTick(old)); late >= 0 { // or it was handed over before its deadline
				w.late.Observe(late)
			}
		}
		v, t.value = t.value, v
		w.live.Add(-1)
		w.funcs.Ended()
		return true
	})
	return v, ok
}

// dueTick returns the due tick of a timer with the given word. wheel.mu must be held.
func (t *TimerOf[V]) dueTick(at word) uint64 {
	if at&rearmed != 0 {
		return t.until
	}
	return touchedTick(at) + t.delay + 1
}

// WasStarted reports whether the timer was ever started. An ended timer was, too.
func (t *TimerOf[V]) WasStarted() bool { return t.word.Load() != unstarted }

// Value returns the timer's value, and whether the timer is running.
func (t *TimerOf[V]) Value() (v V, running bool) {
	running = t.locked(func(*WheelOf[V], word) bool {
		v = t.value
		return true
	})
	return v, running
}
