package rules

import "time"

// Idles is the state of ReadIdle and WriteIdle.
type Idles struct {
	At    Time    // when to look
	Spent [2]Time // by kind: nothing more comes of a silence that began before then
}

// idleReasons are the kinds of Idles, in the order of Idles.Spent.
var idleReasons = [...]Reason{ReadIdle, WriteIdle}

// idleDeadline returns when to look for ReadIdle and WriteIdle.
func (p *Policy) idleDeadline(q Idles) Time {
	if p.idlePeriod() == 0 {
		return Never
	}
	return q.At
}

// idlePeriod returns how often to look for ReadIdle and WriteIdle at least, or 0 for never.
func (p *Policy) idlePeriod() time.Duration { return least(p.ReadIdle, p.WriteIdle) }

// idled decides about a connection if nothing was read from it, or written to it, for too
// long.
func (d *decision) idled() (Outcome, bool) {
	q := &d.s.Idles
	if d.now < d.p.idleDeadline(*q) || d.s.Doom.Why != 0 {
		return Outcome{}, false
	}
	switch why, probed := d.e.Answer.For, d.e.Probed; {
	case !d.wantsIdleProbe():
	case probed == Sent, probed == Answered:
		return d.probedIdle()
	case probed == Failed && why == WriteIdle && d.s.Holds == 0 && q.Spent[1] <= d.e.Answer.Asked: // some of it may have been sent
		q.At, q.Spent[1] = d.now.Add(d.p.idlePeriod()), d.now
		return d.doom(NoAnswer)
	}
	if out, wanted := d.look(q.At); wanted {
		return out, true
	}
	for {
		why, next := d.idle()
		q.At = next
		if why == 0 {
			return Outcome{}, false
		}
		verdict := Condemn
		if d.p.Asks {
			switch since, _ := d.idleFor(why); {
			case d.e.Answer.For != why && !d.e.IdleAsked[why-ReadIdle]:
				q.At = d.now
				return Outcome{Do: Ask, Why: why}, true
			case d.e.Answer.For != why, why == ReadIdle && since > d.e.Answer.Asked && d.e.Answer.Verdict <= 0:
				// Another question, or new bytes, came after this one. The other rules have their say, and then the
				// user is asked again.
				q.At = d.now.Add(d.p.Tick)
				return Outcome{}, false
			}
			verdict = d.e.Answer.Verdict
		}
		switch {
		case verdict > 0:
			q.At = d.now.Add(time.Duration(verdict))
			return Outcome{}, false
		case verdict == ProbeIt && d.p.ProbeCount > 0 && d.e.Probed != Failed:
			if q.At = d.now; !d.isFinal() {
				d.note() // before the probe: its answer is news
			}
			return Outcome{Do: Probe}, true
		}
		q.Spent[why-ReadIdle] = d.socket.Asked
		if verdict == Pardon {
			continue
		}
		if out, ended := d.doom(d.afterProbe(why)); ended {
			return out, true
		}
	}
}

// wantsIdleProbe reports whether the user wants a probe for a limit that is still in force.
func (d *decision) wantsIdleProbe() bool {
	a := d.e.Answer
	inForce := a.For == ReadIdle && d.p.ReadIdle > 0 || a.For == WriteIdle && d.p.WriteIdle > 0
	return inForce && a.Verdict == ProbeIt && d.p.ProbeCount > 0
}

// probedIdle decides about a connection that was probed because the user has said so. The socket is not asked: what it
// sent last is the probe. The connection is looked at again as if it had not been silent before.
func (d *decision) probedIdle() (Outcome, bool) {
	d.s.Idles.At = d.now.Add(d.p.idlePeriod())
	if !d.e.Due || d.e.Probed == Answered || d.isFinal() { // the answer to an earlier one must come in its time
		return Outcome{}, false
	}
	return d.probe(lastProbe), true
}

// idle returns why a connection is idle by ReadIdle or WriteIdle, if it is, and when to look
// again.
func (d *decision) idle() (why Reason, next Time) {
	again := d.now.Add(d.p.idlePeriod())
	if d.s.Holds > 0 {
		return 0, again
	}
	if d.slowToRead() {
		d.out.Spared, d.out.Slow, d.s.Released = true, d.socket.Unread > 0, d.now
	}
	next = Never
	for i, reason := range idleReasons {
		since, end := d.idleFor(reason)
		if d.socket.Asked < end {
			next = min(next, end)
			continue
		}
		next = min(next, again)
		if since >= d.s.Idles.Spent[i] && (why == 0 || reason == d.e.Answer.For) { // first what the user has decided
			why = reason
		}
	}
	return why, next
}

// slowToRead reports whether ReadIdle is over since this program is slow to read, or was until now.
// Then the silence is no fault of the peer. A hanging program must not keep its dead connections for
// ever.
func (d *decision) slowToRead() bool {
	since, end := d.idleFor(ReadIdle)
	if d.socket.Asked < end || since < d.s.Idles.Spent[0] || d.e.Answer.For == ReadIdle && since <= d.e.Answer.Asked {
		return false
	}
	k := d.socket
	if k.Unread == 0 { // then a touch after the decision was due tells of a late read
		return d.late(d.e.DueAt) && d.e.Touched > d.e.DueAt && k.Arrived > 0 && k.Received > d.s.Released
	}
	end = k.Received
	for range 1 + maxRounds {
		end = end.Add(d.p.ReadIdle)
	}
	return k.Asked < end
}

// idleFor returns since when nothing was read, or written, and the end of the limit.
func (d *decision) idleFor(why Reason) (since, end Time) {
	last, limit := d.socket.Received, d.p.ReadIdle
	if why == WriteIdle {
		last, limit = d.socket.Sent, d.p.WriteIdle
	}
	if limit == 0 || last == Unknown {
		return last, Never
	}
	since = max(last, d.s.Released)
	return since, since.Add(limit)
}
