package wheel

import "time"

// newDue is newOf with a function for due timers only.
func newDue[V any](cfg Config, due func(t *TimerOf[V], v V)) (*WheelOf[V], error) {
	return newOf(cfg, Funcs[V]{Due: due})
}

// startDue is NewOf with a function for due timers only.
func startDue[V any](cfg Config, due func(t *TimerOf[V], v V)) (*WheelOf[V], error) {
	return NewOf(cfg, Funcs[V]{Due: due})
}

// Add starts a new timer.
func (w *WheelOf[V]) Add(v V, d time.Duration) (*TimerOf[V], error) {
	t := new(TimerOf[V])
	if err := w.Start(t, v, d); err != nil {
		return nil, err
	}
	return t, nil
}

// Len returns how many keys are pending.
func (tw *TimingWheel[K, V]) Len() int { return tw.engine.Len() }

// idle returns how long ago a timer was touched, in whole ticks.
func (t *TimerOf[V]) idle() time.Duration {
	at := t.word.Load()
	if !isRunning(at) {
		return 0
	}
	return t.wheel.clock.span(t.wheel.clock.now.Load() - touchedTick(at))
}

// timers appends the timers of a list of chunks to a slice.
func (c *chunk[V]) timers(to []*TimerOf[V]) []*TimerOf[V] {
	for ; c != nil; c = c.next {
		for _, t := range c.entry[:c.n] {
			if t != nil {
				to = append(to, t)
			}
		}
	}
	return to
}

// remove removes a timer.
func remove[V any](t *TimerOf[V]) bool {
	_, ok := t.Remove()
	return ok
}

// left returns how long it is until the deadline, or 0 if the timer is due or does not run.
func (t *TimerOf[V]) left() time.Duration {
	if t.word.Load()&stateMask != pending {
		return 0
	}
	w := t.wheel
	w.mu.Lock()
	defer w.mu.Unlock()
	at := t.word.Load()
	if at&stateMask != pending {
		return 0
	}
	return max(0, w.clock.span(t.dueTick(at))-w.Now())
}
