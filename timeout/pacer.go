package timeout

import "time"

const (
	// backRate is how many of the tasks put off by a pacer come back in a second, if there are many. They come in
	// batches, of which backBatches come during the usual wait.
	backRate    = 50
	backBatches = 4
)

// pacer says how long to put off each of many tasks, so that their number costs nothing.
type pacer struct {
	last time.Time // the last turn
}

// after returns how long to put off a task: half to one and a half times wait, or until its turn, one after the
// other, if that is later. Those whose turn would come after longest wait for half to one and a half times longest.
func (p *pacer) after(now time.Time, wait, longest time.Duration) time.Duration {
	turn := now
	if p.last.After(now) {
		turn = p.last
	}
	turn = turn.Add(time.Second / backRate)
	if turn.Sub(now) > longest {
		return longest/2 + jitter(longest)
	}
	p.last = turn
	after := wait/2 + jitter(wait)
	if turn.Sub(now) <= after {
		return after
	}
	batch := max(wait/backBatches, time.Millisecond)
	return turn.Truncate(batch).Add(batch).Sub(now)
}
