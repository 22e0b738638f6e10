package rules

import (
	"cmp"
	"time"
)

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

// answerTime returns how long a peer may take to answer a probe. If probes are gone since it was sent, it has a timeout.
func (p *Policy) answerTime(timeout time.Duration) time.Duration {
	return p.scaled(cmp.Or(p.ProbeTimeout, p.Timeout), timeout)
}

// nextProbe returns the number of the probe to send now, or 0.
func (d *decision) nextProbe() int {
	q := d.s.Silence
	_, why := d.step()
	switch {
	case d.isFailed():
		return 0
	case q.Stage == Probing && int(q.Probes) < d.p.ProbeCount:
		return int(q.Probes) + 1
	case q.Stage == Listening && why == NoAnswer:
		return 1
	}
	return 0
}

// sentProbe returns the number of the probe that this visit has sent in this silence, or 0.
func (d *decision) sentProbe() int {
	switch a := d.e.Answer; {
	case a.Probed != Sent, d.s.Holds > 0, d.isFinal():
		return 0
	case d.p.Asks && a.For != 0 && a.Verdict == ProbeIt:
		return lastProbe
	}
	return d.nextProbe()
}

// isFailed reports whether this visit could not send a probe. It sends no other one.
func (d *decision) isFailed() bool {
	return d.e.Answer.Probed == Failed || d.e.Idle[0].Probed == Failed || d.e.Idle[1].Probed == Failed
}

// isFinal reports whether the user has had a say already.
func (d *decision) isFinal() bool {
	return d.s.Silence.Probes == lastProbe
}

// probe sends a probe, and then waits for the answer.
func (d *decision) probe(number int) Outcome {
	if d.e.Answer.Probed == NotProbed {
		return Outcome{Do: Probe}
	}
	return d.listen(number)
}

// listen waits for the answer to a probe.
//
// All answers are waited for on one schedule, from the last touch on: so the end is
// at most two ticks late with any number of probes, and an answer may have a tick less than
// ProbeTimeout. If this program was slower, the schedule begins anew.
func (d *decision) listen(number int) Outcome {
	q := Silence{Stage: Probing, Probes: uint8(number), Why: NoAnswer}
	timeout := d.p.timeout(d.s)
	wait := d.p.answerTime(timeout)
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
