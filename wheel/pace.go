package wheel

import "time"

// pace turns the time since the start into the wheel's time, which is the same
// less all stalls. A stall is a gap between two looks at the clock in which
// nobody in this process could hear a heartbeat. It doesn't count, and neither
// does the grace after it, in which the process has run for as long as a stall
// has to be: so what has arrived meanwhile is read before anything expires.
//
// A suspended machine is a gap that the clock may not show, because it stands still
// meanwhile. Then there is no time to leave out, but the grace is needed all the
// same.
type pace struct {
	sleep time.Duration // how long the hand sleeps at most
	stall time.Duration // a longer gap is a stall; negative: no gap is

	looked time.Duration // the last look
	asleep time.Duration // how long the machine was suspended by then, since whenever
	grace  time.Duration // what is left of it
	row    int           // stalls with no time between them that counts
	lost   time.Duration // all that was left out so far

	stalls  uint64
	stalled time.Duration // how long they were, without graces

	// last are the last few stalls, the oldest first; more than that are not
	// within one delay.
	last [8]stall
}

// stall is where time was left out.
type stall struct {
	begin time.Duration // the time since the start
	lost  time.Duration // what had been left out before
}

// maxRow is how many stalls may come one after the other, with no time between them
// that counts. After that each counts as a sleep of the hand, so that a machine on which every
// gap is a stall gets on.
const maxRow = 10

// look returns the wheel's time when the given time has passed since the start,
// and the length of the stall that this look has found, or 0. asleep is how long the
// machine has been suspended without being in elapsed. The process must look after each
// sleep also in a grace, or takes it for a stall.
func (p *pace) look(elapsed, asleep time.Duration) (t, stalled time.Duration) {
	gap := elapsed - p.looked
	p.looked = elapsed
	nap := max(0, asleep-p.asleep) // less than before was a bad reading
	p.asleep += nap
	switch {
	case p.stall > 0 && gap+nap > p.stall:
		stalled = max(0, gap-p.sleep) + nap // the hand meant to sleep
		copy(p.last[:], p.last[1:])
		p.last[len(p.last)-1] = stall{elapsed - gap, p.lost}
		p.stalls++
		p.stalled += stalled
		p.lost += gap
		p.grace = p.stall
		if p.row++; p.row > maxRow {
			p.lost -= min(gap, p.sleep)
		}
	case p.grace > 0:
		p.lost += min(gap, p.grace)
		p.grace -= min(gap, p.grace)
	default: // this one counts
		p.row = 0
	}
	return elapsed - p.lost, stalled
}

// at returns what look would return for the wheel's time, without a look. Of a machine
// that was suspended since the last one it doesn't know; then it is up to a gap more.
func (p *pace) at(elapsed time.Duration) time.Duration {
	gap := elapsed - p.looked
	if p.stall > 0 && gap > p.stall {
		gap = 0
	}
	return p.looked - p.lost + max(0, gap-p.grace)
}

// counted returns how much of the last d was the wheel's time. Where there were more
// stalls than are known it can be too little.
func (p *pace) counted(elapsed, d time.Duration) time.Duration {
	now, then := p.at(elapsed), elapsed-d
	if then >= p.looked {
		return max(0, now-p.at(then))
	}
	lost := p.lost // at that time, if no stall came after it
	for i := range min(p.stalls, uint64(len(p.last))) {
		s := p.last[len(p.last)-1-int(i)]
		if then >= s.begin {
			return now - max(then-lost, s.begin-s.lost)
		}
		lost = s.lost
	}
	if oldest := p.last[0]; p.stalls > uint64(len(p.last)) {
		then = min(then, oldest.begin-oldest.lost)
	}
	return max(0, now-then)
}
