package wheel

import "time"

// Wheel is a wheel whose timers each have a function of their own, like those of
// [time.AfterFunc].
//
// A million timers cost 41 bytes each, and what their functions capture: a Timer
// of 32 bytes and its place in a slot. Programs to which the closure matters use
// [WheelOf].
type Wheel struct {
	*WheelOf[func()]
}

// Timer is one deadline of a [Wheel].
type Timer = TimerOf[func()]

// New starts a wheel. It returns [ErrArgument], wrapped with the value and its
// limit, where the config asks for something impossible.
func New(cfg Config) (*Wheel, error) {
	of, err := NewOf(cfg, func(t *Timer, _ func()) {
		if f, ok := t.Expire(); ok {
			f()
		}
	})
	if err != nil {
		return nil, err
	}
	return &Wheel{of}, nil
}

// AfterFunc calls f, on a goroutine of the wheel's, when d has passed: not
// before, and at most two ticks after. The timer's delay, which Touch repeats,
// is d; with d of zero or less it is due on the next tick. It panics where f is
// nil. After Stop it returns a timer that is removed already.
func (w *Wheel) AfterFunc(d time.Duration, f func()) *Timer {
	if f == nil {
		panic("wheel: AfterFunc with a nil function")
	}
	t := new(Timer)
	if err := w.start(t, f, w.clock.ticks(d)); err != nil {
		return new(Timer)
	}
	return t
}
