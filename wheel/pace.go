package wheel

import "time"

// pace turns the time since the start into the wheel's time, which is the same
// less all stalls. A stall is a gap between two looks at the clock in which
// nobody in this process could hear a heartbeat: it counts as one tick. For a
// while after it, the grace, the wheel's time stands still, so that what has
// arrived meanwhile is read before anything expires.
//
// A machine on which every gap is a stall still gets on by a tick each.
type pace struct {
	tick  time.Duration
	stall time.Duration // a longer gap is a stall; negative: no gap is

	looked time.Duration // the last look
	resume time.Duration // when the grace ends
	lost   time.Duration // all that was left out so far

	stalls  uint64
	stalled time.Duration // left out because of stalls, without graces
}

// look returns the wheel's time when the given time has passed since the start,
// and the length of the stall that this look has found, or 0.
func (p *pace) look(elapsed time.Duration) (t, stalled time.Duration) {
	gap := elapsed - p.looked
	switch {
	case p.stall > 0 && gap > p.stall:
		stalled = gap - p.tick
		p.lost += stalled
		p.stalls++
		p.stalled += stalled
		if p.resume <= p.looked { // no grace after a stall within a grace
			p.resume = elapsed + p.stall
		}
	case p.looked < p.resume:
		p.lost += min(elapsed, p.resume) - p.looked
	}
	p.looked = elapsed
	return elapsed - p.lost, stalled
}

// at returns the wheel's time without looking for stalls.
func (p *pace) at(elapsed time.Duration) time.Duration { return elapsed - p.lost }

// until returns how long it is from elapsed until the wheel's time is t.
func (p *pace) until(t, elapsed time.Duration) time.Duration {
	d := t - p.at(elapsed)
	if p.looked < p.resume {
		d += p.resume - p.looked
	}
	return d
}
