package wheel

import (
	"math"
	"slices"
	"time"
)

// pace turns the time since the start into the wheel's time, by leaving out all stalls. A
// stall is a gap between two looks at the clock in which nobody in this process could hear
// a heartbeat. It doesn't count, and neither does the grace after it. The process runs in
// the grace, for as long as the shortest stall. So it reads the bytes that arrived
// meanwhile before anything expires.
//
// A suspended machine is a gap that the clock may not show, because it stands still
// meanwhile. Then there is no time to leave out, but the grace is needed all the same.
type pace struct {
	sleep time.Duration // longest sleep of the hand
	stall time.Duration // a longer gap is a stall; negative: no gap is

	looked  time.Duration // the last look
	asleep  time.Duration // suspend time by then
	grace   time.Duration // rest of the grace after the last stall
	ran     time.Duration // counted time since the last stall
	row     int           // stalls without a calm between them
	lost    time.Duration // all time left out so far
	resumed time.Duration // the wheel's time at the end of the last stall

	stalls  uint64
	stalled time.Duration // their length, without graces

	last []stall // those remembered, the oldest first
}

// stall is one piece of time left out.
type stall struct {
	begin time.Duration // the time since the start
	lost  time.Duration // all time left out before
	since time.Duration // the wheel's time at the end of the stall before, forgotten or not
}

// time returns the wheel's time at the beginning of the stall.
func (s stall) time() time.Duration { return s.begin - s.lost }

// maxStalls is how many stalls are remembered, the fewer the longer ago: enough for the bound that counted states,
// see forget.
const maxStalls = 256

// maxRow is how many stalls may come one after the other without a calm between them, which
// is as much counted time as the shortest stall. After that each has half a grace. Otherwise
// the time of a process that runs for little more than a grace between its stalls would
// hardly get on. The time of one that runs for less is to get on, too, by at least a sleep of
// the hand with each stall.
const maxRow = 10

// look returns the wheel's time at elapsed, the time since the start. asleep is the suspend
// time missing from elapsed. The process must look after each sleep, in a grace too, or look
// takes the sleep for a stall.
func (p *pace) look(elapsed, asleep time.Duration) time.Duration {
	gap := elapsed - p.looked
	p.looked = elapsed
	nap := max(0, asleep-p.asleep) // less than before was a bad reading
	p.asleep += nap
	switch {
	case p.stall > 0 && gap+nap > p.stall:
		s := stall{elapsed - gap, p.lost, p.resumed}
		if len(p.last) == maxStalls {
			p.forget(s.time())
		}
		p.last = append(p.last, s)
		p.stalls++
		p.stalled += max(0, gap-p.sleep) + nap // the hand meant to sleep
		p.lost += gap
		p.grace = p.stall
		if p.ran >= p.stall {
			p.row = 0
		}
		if p.row++; p.row > maxRow {
			p.grace /= 2
			p.lost -= min(gap, max(0, p.sleep-p.ran))
		}
		p.ran, p.resumed = 0, elapsed-p.lost
	default:
		grace := min(gap, p.grace)
		p.grace -= grace
		p.lost += grace
		p.ran += gap - grace
	}
	return elapsed - p.lost
}

// at returns the wheel's time like look, without a look. It knows of no suspension since
// the last look. After one, it is up to a gap too much.
func (p *pace) at(elapsed time.Duration) time.Duration {
	gap := elapsed - p.looked
	if p.stall > 0 && gap > p.stall {
		gap = 0
	}
	return p.looked - p.lost + max(0, gap-p.grace)
}

// forget forgets a stall, but not the last one. So the two pieces of time beside it become one, as buckets of an exponential
// histogram do (Datar et al., Maintaining Stream Statistics over Sliding Windows). In such a piece counted dates each
// instant before the end of the last stall by that end. forget makes the piece for which the error is the least part of
// the age: the time so dated is half as long as the age of its end, at most. That stays so, since only the age grows.
//
// Proof: otherwise, of any three stalls in a row, the first would be more than 1.5 times as old as the last. The last but
// one of 256 would be a nanosecond old, and the start 1.5^127 ns. But the longest Duration is less than 1.5^108 ns.
func (p *pace) forget(now time.Duration) {
	least, at, before := math.Inf(1), 0, time.Duration(0)
	for i, next := range p.last[1:] {
		if part := float64(next.since-before) / float64(max(1, now-next.since)); part < least {
			least, at = part, i
		}
		before = p.last[i].time()
	}
	p.last = slices.Delete(p.last, at, at+1)
}

// counted returns how much of the last d was the wheel's time. If more stalls than are remembered fall into the time
// since the start, the result may be too small, but two thirds of it at least. So a silence may seem to be shorter than
// it is, and still comes to an end. It never seems to be longer. An instant in a stall counts as its end.
func (p *pace) counted(elapsed, d time.Duration) time.Duration {
	now, then := p.at(elapsed), elapsed-d
	if then >= p.looked {
		return max(0, now-p.at(then))
	}
	lost, since := p.lost, p.resumed // of the piece between two stalls in which then is
	for _, s := range slices.Backward(p.last) {
		if then > s.begin {
			break
		}
		lost, since = s.lost, s.since
	}
	return now - max(then-lost, since)
}
