package rules

import "time"

// Idles is the state of ReadIdle and WriteIdle.
type Idles struct {
	At    Time    // when to look, if that is not too soon after the opening
	Spent [2]Time // by kind, for ReadIdle and WriteIdle: nothing more comes of a silence that began before then
}

// idleNext returns when to look for ReadIdle and WriteIdle.
func (d *decision) idleNext() Time {
	if d.p.ReadIdle == 0 && d.p.WriteIdle == 0 {
		return Never
	}
	return max(d.s.Idles.At, d.e.Born.Add(d.p.idlePeriod()))
}

func (d *decision) idleAdapt() { d.s.Idles = Idles{} }

// idleLimits returns ReadIdle and WriteIdle, by kind.
func (p *Policy) idleLimits() [2]time.Duration { return [...]time.Duration{p.ReadIdle, p.WriteIdle} }

// idlePeriod returns how often to look for ReadIdle and WriteIdle at least: one of them is set.
func (p *Policy) idlePeriod() time.Duration {
	if r, w := p.ReadIdle, p.WriteIdle; r > 0 && (w == 0 || r < w) {
		return r
	}
	return p.WriteIdle
}

// idled decides about a connection if nothing was read from it, or written to it, for too
// long.
func (d *decision) idled() (Outcome, bool) {
	q := &d.s.Idles
	if d.s.Holds > 0 {
		q.At = d.now.Add(d.p.idlePeriod())
		return Outcome{}, false
	}
	if d.isUnread() {
		d.out.Spared, d.out.Slow, d.s.Released = true, d.e.Socket.Unread > 0, d.now
	}
	first, next := 0, Never
	if d.e.Idle[1].For != 0 { // what was asked for in this visit
		first = 1
	}
	for i := range d.e.Idle {
		out, decided := d.idle((first + i) % 2)
		switch {
		case decided && out.Do != Wait:
			return out, true
		case decided:
			q.At = out.Until
			return Outcome{}, false
		}
		next = min(next, out.Until)
	}
	q.At = next
	return Outcome{}, false
}

// idle decides about one kind. The outcome Wait is until it is looked at again; true says that the other kind waits as long.
func (d *decision) idle(kind int) (Outcome, bool) {
	why, a, spent := ReadIdle+Reason(kind), d.e.Idle[kind], &d.s.Idles.Spent[kind]
	since, end := d.idleFor(kind)
	again, unless := Outcome{Do: Wait, Until: d.now.Add(d.p.idlePeriod())}, UnlessRead+End(kind)
	switch {
	case end == Never:
		return Outcome{Do: Wait, Until: Never}, false
	case a.Verdict == ProbeIt && a.Probed == Sent: // what the socket sent last is the probe, so it is not judged
		if d.e.Due && !d.e.Anew && !d.isFinal() { // else it is answered, or the answer to an earlier one must come in its time
			d.listen(lastProbe)
		}
		return again, true
	case a.Verdict == ProbeIt && a.Probed == Failed && why == WriteIdle && *spent <= a.Asked: // some of it may have been sent
		unless = WhenAllowed
	case d.now < end:
		return Outcome{Do: Wait, Until: end}, false
	case d.p.Asks && a.For != 0 && since > a.Asked && a.Verdict <= 0 && (why == ReadIdle || d.e.askedSince(a)):
		// New bytes came after this question. The user is asked again, in another visit. Bytes written by
		// the user in the question itself are no news.
		return Outcome{Do: Wait, Until: d.now.Add(d.p.Tick)}, false
	case since < *spent:
		return again, false
	case d.p.Asks && a.For == 0:
		return Outcome{Do: Ask, Why: why}, true
	case d.p.Asks && a.Verdict > 0:
		return Outcome{Do: Wait, Until: d.now.Add(time.Duration(a.Verdict))}, true
	case d.p.Asks && a.Verdict == ProbeIt && d.p.ProbeCount > 0 && a.Probed == NotProbed:
		if d.isFailed() { // the silence ends it, unless the peer is heard
			return again, true
		}
		if !d.isFinal() {
			d.note() // before the probe: its answer is news
		}
		return Outcome{Do: Probe, Why: why}, true
	}
	*spent = d.now
	if d.p.Asks && a.Verdict == Pardon {
		return again, false
	}
	if out, ended := d.doom(d.reason(a, why), unless); ended {
		return out, true
	}
	return again, false
}

// isUnread reports whether ReadIdle is over since this program is slow to read, or was until now.
// Then the silence is no fault of the peer. A hanging program must not keep its dead connections for
// ever.
func (d *decision) isUnread() bool {
	since, end := d.idleFor(0)
	if d.now < end || since < d.s.Idles.Spent[0] || d.e.Idle[0].For != 0 && since <= d.e.Idle[0].Asked {
		return false
	}
	k := &d.e.Socket
	if k.Unread == 0 { // then a touch after the decision was due tells of a late read
		return d.late(d.e.DueAt) && d.e.Touched > d.e.DueAt && k.Arrived > 0 && k.Received > d.s.Released
	}
	return k.Full || d.now < k.Received.Add(Saturated((1+maxRounds)*float64(d.p.ReadIdle)))
}

// idleFor returns since when nothing of a kind was read, or written, and the end of the limit.
func (d *decision) idleFor(kind int) (since, end Time) {
	last, limit := [...]Time{d.e.Socket.Received, d.e.Socket.Sent}[kind], d.p.idleLimits()[kind]
	if limit == 0 || last == Unknown {
		return last, Never
	}
	since = max(last, d.s.Released)
	return since, since.Add(limit)
}
