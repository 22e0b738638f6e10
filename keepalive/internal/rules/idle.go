package rules

import "time"

// Idles is the state of ReadIdle and WriteIdle.
type Idles struct {
	On    bool
	Spent bool // nothing more comes of the present silence
	At    Time // when to look
}

// Until returns when to look, or Never.
func (q Idles) Until() Time {
	if q.On {
		return q.At
	}
	return Never
}

func (p *Policy) adaptIdles(now Time) Idles {
	return Idles{On: p.ReadIdle > 0 || p.WriteIdle > 0, At: now}
}

// idled decides about a connection from which nothing was read, or to which nothing was
// written, for too long.
func (d *decision) idled() (Outcome, bool) {
	q := &d.s.Idles
	asked := d.e.Answer.For == ReadIdle || d.e.Answer.For == WriteIdle
	if d.now < q.Until() || d.s.Doom.Why != 0 {
		return Outcome{}, false
	}
	if out, wanted := d.look(); wanted {
		return out, true
	}
	why, next := d.idle()
	spent := q.Spent
	q.At, q.Spent = next, why != 0
	switch {
	case why == 0, spent, asked && d.e.Answer.For != why: // or it is another silence now
		return Outcome{}, false
	case !d.p.Asks:
		return d.doom(why)
	case !asked:
		q.At, q.Spent = d.now, false
		return Outcome{Do: Ask, Why: why}, true
	}
	switch verdict := d.e.Answer.Verdict; {
	case verdict == Pardon:
		return Outcome{}, false
	case verdict > 0:
		q.At, q.Spent = d.now.Add(time.Duration(verdict)), false
		return Outcome{}, false
	case verdict == ProbeIt && d.p.ProbeCount > 0:
		return d.probeIdle()
	}
	return d.doom(why)
}

// probeIdle probes a connection because the user has said so. It is looked at again as if it
// had not been silent before.
func (d *decision) probeIdle() (Outcome, bool) {
	d.s.Idles.Spent = false
	switch d.e.Probed {
	case NotProbed:
		d.s.Idles.At = d.now
		return Outcome{Do: Probe}, true
	case Failed:
		return d.doom(NoAnswer)
	}
	if !d.e.Due {
		return Outcome{}, false
	}
	return d.probe(lastProbe), true
}

// idle returns why a connection is idle by ReadIdle or WriteIdle, if it is, and when to look
// again.
func (d *decision) idle() (why Reason, next Time) {
	period := least(d.p.ReadIdle, d.p.WriteIdle)
	if d.s.Holds > 0 {
		return 0, d.now.Add(period)
	}
	next = Never
	for _, rule := range [...]struct {
		last  Time
		limit Time
		why   Reason
	}{
		{d.socket.Received, Time(d.p.ReadIdle), ReadIdle},
		{d.socket.Sent, Time(d.p.WriteIdle), WriteIdle},
	} {
		if rule.limit == 0 || rule.last == Unknown {
			continue
		}
		end := max(rule.last, d.s.Released).Add(rule.limit.Sub(0))
		if d.now < end {
			next = min(next, end)
			continue
		}
		next = min(next, d.now.Add(period))
		if why == 0 {
			why = rule.why
		}
	}
	return why, next
}
