package rules

import "time"

// Idles is the state of ReadIdle and WriteIdle.
type Idles struct {
	At    Time    // when to look, if that is not too soon after the opening
	Spent [2]Time // by kind: nothing more comes of a silence that began before then
}

// idleReasons are the kinds of Idles, in the order of Idles.Spent.
var idleReasons = [...]Reason{ReadIdle, WriteIdle}

// idleNext returns when to look for ReadIdle and WriteIdle.
func idleNext(p *Policy, s *State, e *Evidence) Time {
	if period := p.idlePeriod(); period > 0 {
		return max(s.Idles.At, e.Born.Add(period))
	}
	return Never
}

func idleAdapt(_ *Policy, s *State, _ *Evidence, _ Time) { s.Idles = Idles{} }

// idlePeriod returns how often to look for ReadIdle and WriteIdle at least, or 0 for never.
func (p *Policy) idlePeriod() time.Duration { return least(p.ReadIdle, p.WriteIdle) }

// idled decides about a connection if nothing was read from it, or written to it, for too
// long.
func (d *decision) idled() (Outcome, bool) {
	q := &d.s.Idles
	for i, a := range d.e.Idle {
		switch {
		case !d.inForce(a) || a.Verdict != ProbeIt:
		case a.Probed == Sent, a.Probed == Answered:
			return d.probedIdle(a)
		case a.Probed == Failed && a.For == WriteIdle && d.s.Holds == 0 && q.Spent[i] <= a.Asked: // some of it may have been sent
			q.At, q.Spent[i] = d.now.Add(d.p.idlePeriod()), d.now
			return d.doom(NoAnswer, WhenAllowed)
		}
	}
	for {
		why, next := d.idle()
		q.At = next
		if why == 0 {
			return Outcome{}, false
		}
		a := d.e.About(why)
		switch {
		case !d.p.Asks:
		case a.For == 0:
			q.At = d.now
			return Outcome{Do: Ask, Why: why}, true
		case a.Verdict > 0:
			q.At = d.now.Add(time.Duration(a.Verdict))
			return Outcome{}, false
		case a.Verdict == ProbeIt && d.p.ProbeCount > 0 && a.Probed == NotProbed:
			if d.isFailed() { // the silence ends it, unless the peer is heard
				q.At = d.now.Add(d.p.idlePeriod())
				return Outcome{}, false
			}
			if q.At = d.now; !d.isFinal() {
				d.note() // before the probe: its answer is news
			}
			return Outcome{Do: Probe, Why: why}, true
		}
		q.Spent[why-ReadIdle] = d.now
		if d.p.Asks && a.Verdict == Pardon {
			continue
		}
		if out, ended := d.doom(d.reason(*a, why), UnlessRead+End(why-ReadIdle)); ended {
			return out, true
		}
	}
}

// inForce reports whether there is an answer about a limit that is still in force.
func (d *decision) inForce(a Answer) bool {
	return a.For == ReadIdle && d.p.ReadIdle > 0 || a.For == WriteIdle && d.p.WriteIdle > 0
}

// probedIdle decides about a connection that was probed because the user has said so. What the socket sent last is
// the probe, so it is not judged. The connection is looked at again as if it had not been silent before.
func (d *decision) probedIdle(a Answer) (Outcome, bool) {
	d.s.Idles.At = d.now.Add(d.p.idlePeriod())
	if !d.e.Due || a.Probed == Answered || d.isFinal() { // the answer to an earlier one must come in its time
		return Outcome{}, false
	}
	return d.listen(lastProbe), true
}

// idle returns why a connection is idle by ReadIdle or WriteIdle, if it is, and when to look
// again.
func (d *decision) idle() (why Reason, next Time) {
	again := d.now.Add(d.p.idlePeriod())
	if d.s.Holds > 0 {
		return 0, again
	}
	if d.isUnread() {
		d.out.Spared, d.out.Slow, d.s.Released = true, d.e.Socket.Unread > 0, d.now
	}
	next = Never
	for i, reason := range idleReasons {
		since, end := d.idleFor(reason)
		a := d.e.Idle[i]
		answered := d.p.Asks && a.For != 0
		switch {
		case d.now < end:
			next = min(next, end)
			continue
		case answered && since > a.Asked && a.Verdict <= 0 && (reason == ReadIdle || d.e.askedSince(a)):
			// New bytes came after this question. The user is asked again, in another visit. Bytes written by
			// the user in the question itself are no news.
			next = min(next, d.now.Add(d.p.Tick))
			continue
		}
		next = min(next, again)
		if since >= d.s.Idles.Spent[i] && (why == 0 || answered) { // first what the user has decided
			why = reason
		}
	}
	return why, next
}

// isUnread reports whether ReadIdle is over since this program is slow to read, or was until now.
// Then the silence is no fault of the peer. A hanging program must not keep its dead connections for
// ever.
func (d *decision) isUnread() bool {
	since, end := d.idleFor(ReadIdle)
	if d.now < end || since < d.s.Idles.Spent[0] || d.e.Idle[0].For != 0 && since <= d.e.Idle[0].Asked {
		return false
	}
	k := &d.e.Socket
	if k.Unread == 0 { // then a touch after the decision was due tells of a late read
		return d.late(d.e.DueAt) && d.e.Touched > d.e.DueAt && k.Arrived > 0 && k.Received > d.s.Released
	}
	if k.Full {
		return true
	}
	end = k.Received
	for range 1 + maxRounds {
		end = end.Add(d.p.ReadIdle)
	}
	return d.now < end
}

// idleFor returns since when nothing was read, or written, and the end of the limit.
func (d *decision) idleFor(why Reason) (since, end Time) {
	last, limit := d.e.Socket.Received, d.p.ReadIdle
	if why == WriteIdle {
		last, limit = d.e.Socket.Sent, d.p.WriteIdle
	}
	if limit == 0 || last == Unknown {
		return last, Never
	}
	since = max(last, d.s.Released)
	return since, since.Add(limit)
}
