package rules

import "time"

// Stall is the state of WriteStall and MaxUnsent: what the socket has said of the bytes that wait for the peer.
type Stall struct {
	Since  Time          // since when some wait, and the peer takes none, at the latest; 0 if none wait, Never once counted
	Looked Time          // when the socket was last asked, or 0
	Rested time.Duration // Socket.Rested then
	Acked  uint64        // Socket.Acked then
}

// unsentEvery is how often to look for MaxUnsent while bytes wait. Otherwise a window of the rates passes.
const unsentEvery = time.Second

// stallNext returns when to look at the bytes that wait for the peer: first right after the opening.
func (d *decision) stallNext() Time {
	p, q, next := d.p, &d.e.Stall, Never
	from, every := q.Looked, window
	switch {
	case p.WriteStall == 0 && p.MaxUnsent == 0:
		return Never
	case q.Looked == 0:
		return 0
	case q.Since != 0 && q.Since != Never:
		from, every = q.Since, unsentEvery
	}
	if p.WriteStall > 0 {
		next = from.Add(p.WriteStall)
	}
	if p.MaxUnsent > 0 {
		next = min(next, q.Looked.Add(every))
	}
	return next
}

func (d *decision) stallAdapt() {
	if d.p.WriteStall == 0 && d.p.MaxUnsent == 0 || d.e.Stall.Since == Never { // it is closed after a dry run
		d.e.Stall = Stall{}
	}
}

// stalled decides about a connection whose peer takes none of the bytes that wait for it, or leaves too many of them.
// That this program is busy with the connection is no excuse of the peer.
func (d *decision) stalled() (Outcome, bool) {
	why := d.overdue()
	if why == 0 {
		return Outcome{}, false
	}
	out, ended := d.doom(why, UnlessTaken)
	if !ended && why == WriteStall { // a dry run counts it once
		d.stall.Since = Never
	}
	out.Reset = ended // also if a drain was to end it before
	return out, ended
}

// overdue notes what waits for the peer, and returns why the connection is to be closed for it, or 0.
func (d *decision) overdue() Reason {
	k, q, p := &d.e.Socket, &d.stall, d.p
	switch {
	case !k.Waits:
		q.Since = 0
	case q.Since == 0 || q.Acked != k.Acked:
		q.Since = d.waitsSince()
	}
	q.Looked, q.Rested, q.Acked = d.now, k.Rested, k.Acked
	switch over := q.Since.Add(p.WriteStall); {
	case p.MaxUnsent > 0 && k.Unsent > p.MaxUnsent:
		return MaxUnsent
	case p.WriteStall == 0 || q.Since == 0 || d.now < over:
	case k.Took == Unknown && d.late(over): // a Write may be over, and its goroutine has not run yet
		d.out.Spared = true
		q.Since = d.now.Add(2*p.Blur - p.WriteStall)
	default:
		return WriteStall
	}
	return 0
}

// waitsSince returns since when bytes wait of which the peer has taken none, at the latest.
//
// Either some have waited ever since the peer last took one, or none has for a while, until they were written. In
// that while nothing has waited, so it is not longer than all of the rest since the last look:
//
//	WriteStall 10
//	at 10   nothing waits, rested for 7 so far
//	at 20   bytes wait, rested for 11: they have waited since 14, or the peer took some after 10
//	at 24   the same bytes wait: it is over
//
// And bytes on their way have waited since they were sent.
func (d *decision) waitsSince() Time {
	k, q, since := &d.e.Socket, &d.stall, max(d.now, 1)
	if q.Looked > 0 {
		since = min(since, max(k.Took, q.Looked).Add(max(0, k.RestedMost-q.Rested)))
	}
	if k.Flying {
		since = min(since, max(k.Took, k.Left, 1))
	}
	return since
}
