package wheel

import "time"

// Wheel is a [WheelOf] timers with a function each, like those of [time.AfterFunc]. [New]
// makes one.
//
// A million timers cost 57 bytes each, and the variables captured by their functions: a
// Timer of 48 bytes and its place in a slot. A WheelOf other values does without the closure.
//
// All methods are safe for concurrent use, and may be called from the functions
// of timers.
type Wheel struct {
	*WheelOf[func()]
}

// Timer is one deadline of a [Wheel], made by [Wheel.AfterFunc].
type Timer = TimerOf[func()]

// New starts a wheel. It returns [ErrArgument], wrapped with the value and its limit, if
// the config asks for something impossible.
func New(cfg Config) (*Wheel, error) {
	engine, err := NewOf(cfg, Funcs[func()]{Due: func(t *Timer, _ func()) {
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
	_ = w.start(t, f, w.clock.ticks(d)) // it fails only after Stop
	return t
}
