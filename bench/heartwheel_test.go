package bench

import (
	"time"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// heartwheel is the engine, with the connection's number for a value.
type heartwheel struct {
	wheel  *wheel.WheelOf[int]
	timers []*wheel.TimerOf[int]
}

func newHeartwheel(s setting) deadlines {
	w, err := wheel.NewOf(wheel.Config{Tick: s.tick}, wheel.Funcs[int]{
		Due: func(t *wheel.TimerOf[int], _ int) {
			if i, ok := t.Expire(); ok {
				s.expired(i)
			}
		},
	})
	if err != nil {
		panic(err)
	}
	return &heartwheel{wheel: w, timers: make([]*wheel.TimerOf[int], s.conns)}
}

func (h *heartwheel) add(i int, d time.Duration) {
	h.timers[i] = new(wheel.TimerOf[int])
	_ = h.wheel.Start(h.timers[i], i, d)
}
func (h *heartwheel) touch(i int)  { h.timers[i].Touch() }
func (h *heartwheel) remove(i int) { h.timers[i].Remove() }
func (h *heartwheel) close()       { h.wheel.Stop() }

// heartwheelKeyed is the face with keys.
type heartwheelKeyed struct {
	wheel   *wheel.TimingWheel[string, int]
	keys    []string
	timeout time.Duration
}

func newHeartwheelKeyed(s setting) deadlines {
	w, err := wheel.NewTimingWheel(s.tick, slots, func(_ string, i int) { s.expired(i) })
	if err != nil {
		panic(err)
	}
	return &heartwheelKeyed{wheel: w, keys: makeKeys(s.conns), timeout: s.timeout}
}

func (h *heartwheelKeyed) add(i int, d time.Duration) { _ = h.wheel.SetTimer(h.keys[i], i, d) }
func (h *heartwheelKeyed) touch(i int)                { _ = h.wheel.MoveTimer(h.keys[i], h.timeout) }
func (h *heartwheelKeyed) remove(i int)               { _ = h.wheel.RemoveTimer(h.keys[i]) }
func (h *heartwheelKeyed) close()                     { h.wheel.Stop() }
