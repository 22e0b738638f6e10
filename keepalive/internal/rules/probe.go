package rules

import "time"

// Probed is what came of a probe.
type Probed uint8

// What may come of a probe.
const (
	NotProbed Probed = iota
	Sent             // an answer may come
	Failed           // it could not be sent
	Answered         // it was sent, and the connection touched since then
)

// lastProbe is the number of a probe at the user's wish: after it comes neither another probe
// nor another question.
const lastProbe = 255

// probeAfter returns after what silence a connection is probed: at a moment of its own in
// the last quarter of ProbeAfter, so connections are not probed together if they fell silent
// together.
func (p *Policy) probeAfter(timeout time.Duration, draw float64) time.Duration {
	return p.scaled(p.ProbeAfter, timeout) - p.probedEarly(timeout, draw)
}

// probedEarly returns how much sooner than ProbeAfter this moment is. The last answer has as
// much more time: nobody is closed sooner for it.
func (p *Policy) probedEarly(timeout time.Duration, draw float64) time.Duration {
	return time.Duration(float64(p.scaled(p.ProbeAfter, timeout)/4) * draw)
}

// nextProbe returns the number of the probe to send now, or 0.
func (d *decision) nextProbe() int {
	q := d.s.Silence
	_, why := d.patience()
	switch {
	case d.e.Probed == Failed:
		return 0
	case q.Stage == Probing && int(q.Probes) < d.p.ProbeCount:
		return int(q.Probes) + 1
	case q.Stage == Listening && why == NoAnswer:
		return 1
	}
	return 0
}

// isSent reports whether this visit has sent the probe that is due now.
func (d *decision) isSent(why Reason) bool {
	wanted := d.nextProbe() > 0 || d.e.Answer.For == why && d.e.Answer.Verdict == ProbeIt
	return d.e.Probed == Sent && d.p.ProbeCount > 0 && wanted && !d.isFinal()
}

// isFinal reports whether the user has had a say already.
func (d *decision) isFinal() bool {
	return d.s.Silence.Probes == lastProbe
}

// probe sends a probe, and then waits for the answer.
//
// All answers are waited for on one schedule, from the last touch on: so the end is
// at most two ticks late with any number of probes, and an answer may have a tick less than
// ProbeTimeout. If this program was slower, the schedule begins anew.
func (d *decision) probe(number int) Outcome {
	q := Silence{Stage: Probing, Probes: uint8(number), Why: NoAnswer}
	if d.e.Probed == NotProbed || d.e.Probed == Answered {
		return Outcome{Do: Probe}
	}
	timeout := d.p.timeout(d.s)
	wait := d.p.scaled(d.p.ProbeTimeout, timeout)
	begun := d.e.Touched.Add(d.p.probeAfter(timeout, d.e.Draw))
	if d.s.Silence.Stage == Probing {
		begun = d.s.Silence.Until
	}
	if number == lastProbe {
		begun = d.now
	}
	q.Until = max(begun.Add(wait), d.now.Add(wait-d.p.Tick))
	if number == d.p.ProbeCount {
		q.Until = q.Until.Add(d.p.probedEarly(timeout, d.e.Draw))
	}
	d.enter(q)
	return d.wait(q.Until)
}
