package wheel

import (
	"time"

	"github.com/heartwheel-go/heartwheel/wheel/histogram"
)

// Stats are the figures of a wheel at one moment.
type Stats struct {
	Tick time.Duration // see Config.Tick
	Now  uint64        // tick of the hand, since the start: it grows while the hand moves

	Pending int // timers waiting for their deadline
	Due     int // timers handed over and not decided
	Backlog int // due timers not yet taken up by a worker

	Added   uint64 // timers started
	Expired uint64 // timers expired
	Saved   uint64 // due timers saved by a touch
	Refiled uint64 // visits that filed the timer again: it was touched, or moved down
	Panics  uint64 // panics in functions of the user

	// Late is the time from the beginning of the due tick to the expiry. The wait for a
	// worker is in it. A timer that expires before its deadline, after HandOver, is not.
	Late histogram.Durations

	// Passes is the working time of the hand on each waking with a new tick, most often to
	// visit the slots of one tick. Functions of the user are not in it.
	Passes histogram.Durations

	Stalls  uint64        // gaps left out of all delays, see Config.Stall
	Stalled time.Duration // length of all stalls, suspended machine included

	// Levels are how many timers are filed in each slot of each level, the finest level
	// first, and Units how many ticks a slot of each level is, see Config.Levels. The hand of
	// a level stands at slot Now / unit modulo slots. A touched timer is still filed before
	// its deadline. Due timers are in no slot.
	Levels [][]int
	Units  []uint64
}

// Stats returns the wheel's figures. It takes the lock for some microseconds.
func (w *WheelOf[V]) Stats() Stats {
	w.timeMu.Lock()
	stalls, stalled := w.pace.stalls, w.pace.stalled
	w.timeMu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	due := w.backlog.len + w.undecided.len
	s := Stats{
		Tick:    w.clock.tick,
		Now:     w.hand,
		Due:     due,
		Backlog: w.backlog.len,
		Pending: w.Len() - due,
		Added:   w.added,
		Expired: w.expired,
		Saved:   w.saved,
		Refiled: w.refiled,
		Panics:  w.panics.Load(),
		Late:    w.late,
		Passes:  w.passes,
		Stalls:  stalls,
		Stalled: stalled,
	}
	for _, v := range w.levels.level {
		timers := make([]int, v.size)
		for i := range timers {
			timers[i] = w.levels.slot[v.first+i].len
		}
		s.Levels, s.Units = append(s.Levels, timers), append(s.Units, v.unit)
	}
	return s
}
