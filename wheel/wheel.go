package wheel

import "time"

// Wheel is a wheel of timers with a function each, like those of [time.AfterFunc]. [New]
// makes one.
//
// A million timers cost 57 bytes each, and the variables captured by their functions: a
// Timer of 48 bytes and its place in a slot. [WheelOf] does without the closure.
//
// All methods are safe for concurrent use, and may be called from the functions
// of timers.
type Wheel struct {
	engine *WheelOf[func()]
}

// New starts a wheel. It returns [ErrArgument], wrapped with the value and its limit, if
// the config asks for something impossible.
func New(cfg Config) (*Wheel, error) {
	engine, err := NewOf(cfg, Funcs[func()]{Due: func(t *TimerOf[func()], _ func()) {
		if f, ok := t.Expire(); ok {
			f()
		}
	}})
	if err != nil {
		return nil, err
	}
	return &Wheel{engine}, nil
}

// AfterFunc calls f, on a goroutine of the wheel's, when d has passed: not before, and at
// most two ticks after. The timer's delay, repeated by Touch, is d. With d of zero or less
// the timer is due on the next tick. AfterFunc panics if f is nil. After Stop it returns a
// timer that does not run.
func (w *Wheel) AfterFunc(d time.Duration, f func()) *Timer {
	if f == nil {
		panic("wheel: AfterFunc with a nil function")
	}
	t := new(Timer)
	_ = w.engine.start(&t.of, f, w.engine.clock.ticks(d)) // it fails only after Stop
	return t
}

// Len returns how many timers are running.
func (w *Wheel) Len() int { return w.engine.Len() }

// Stats returns the wheel's figures.
func (w *Wheel) Stats() Stats { return w.engine.Stats() }

// Stop ends all timers without running them and waits until the wheel's goroutine has gone.
// It does not wait for running functions. It may be called more than once, and from such a
// function.
func (w *Wheel) Stop() { w.engine.Stop() }

// Timer is one deadline of a [Wheel], made by [Wheel.AfterFunc]. The zero Timer does not
// run. All methods are safe for concurrent use.
type Timer struct {
	of TimerOf[func()]
}

// Touch moves the deadline to the timer's delay from now: the heartbeat. It reports whether
// the timer will live until then. False means: it had already expired or been removed. It
// takes some nanoseconds and no lock, see [TimerOf.Touch].
func (t *Timer) Touch() bool { return t.of.Touch() }

// Move moves the deadline to d from now, once: a later Touch goes back to the timer's own
// delay. It reports like Touch. With d of zero or less the timer is due on the next tick.
func (t *Timer) Move(d time.Duration) bool { return t.of.Move(d) }

// SetDelay changes the delay of later touches, and the deadline with it: d after the last
// touch. After Move the deadline stays. It reports whether the timer is running. With d of zero
// or less each touch makes the timer due on the next tick.
func (t *Timer) SetDelay(d time.Duration) bool { return t.of.SetDelay(d) }

// Remove ends the timer: its function will not run. It reports whether the timer was still
// running.
func (t *Timer) Remove() bool {
	_, ok := t.of.Remove()
	return ok
}

// Left returns how long it is until the deadline, or 0 if the deadline has passed or the
// timer does not run.
func (t *Timer) Left() time.Duration { return t.of.left() }
