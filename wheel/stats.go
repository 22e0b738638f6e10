package wheel

import "time"

// Stats is what a wheel has done and what it holds, at one moment.
type Stats struct {
	Pending int // timers that wait for their deadline
	Due     int // timers that were handed over and are not decided
	Backlog int // of those, how many no worker has taken up yet

	Added   uint64 // timers started
	Expired uint64 // timers that were decided to have expired
	Saved   uint64 // timers that were moved when they were due already
	Refiled uint64 // visits that found a timer moved, and filed it again
	Panics  uint64 // functions of the user that panicked

	// Late is how much later than the tick on which they were due timers were
	// decided to have expired. The time for which a timer waits for a worker is in
	// it.
	Late Histogram

	// Passes is how long the hand took each time that it woke up: to visit the slots
	// of a tick, most often. Functions of the user are not in it.
	Passes Histogram

	Stalls  uint64        // gaps that were not counted, see Config.Stall
	Stalled time.Duration // how long they were, together, suspended machine included
}

// Stats returns the wheel's figures. It takes the lock for an instant.
func (w *WheelOf[V]) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Stats{
		Due:     w.dueLen(),
		Backlog: w.backlog.len(),
		Pending: w.Len() - w.dueLen(),
		Added:   w.added,
		Expired: w.expired,
		Saved:   w.saved,
		Refiled: w.refiled,
		Panics:  w.panics.Load(),
		Late:    w.late,
		Passes:  w.passes,
		Stalls:  w.pace.stalls,
		Stalled: w.pace.stalled,
	}
}
