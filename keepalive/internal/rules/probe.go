package rules

// Probed is what came of a probe.
type Probed uint8

// What may come of a probe.
const (
	NotProbed Probed = iota
	Sent             // an answer may come
	Failed           // it could not be sent
)

// lastProbe is the number of a probe at the user's wish: after it comes neither another probe
// nor another question.
const lastProbe = 255

// nextProbe returns the number of the probe to send now, or 0.
func (d *decision) nextProbe() int {
	switch q := d.s.Silence; {
	case d.isFailed():
		return 0
	case q.Stage == Probing && int(q.Probes) < d.p.ProbeCount:
		return int(q.Probes) + 1
	case q.Stage == Listening && d.t.then == NoAnswer:
		return 1
	}
	return 0
}

// isFailed reports whether this visit could not send a probe. It sends no other one.
func (d *decision) isFailed() bool {
	return d.e.Answer.Probed == Failed || d.e.Idle[0].Probed == Failed || d.e.Idle[1].Probed == Failed
}

// isFinal reports whether the user has had a say already.
func (d *decision) isFinal() bool {
	return d.s.Silence.Probes == lastProbe
}

// listen waits for the answer to a probe.
//
// All answers are waited for on one schedule, from the last touch on: so the end is
// at most two ticks late with any number of probes, and an answer may have a tick less than
// ProbeTimeout. If this program was slower, the schedule begins anew.
func (d *decision) listen(number int) Outcome {
	begun := d.e.Touched.Add(d.t.probe)
	switch {
	case number == lastProbe:
		begun = d.now
	case d.s.Silence.Stage == Probing:
		begun = d.s.Silence.Until
	}
	until := max(begun.Add(d.t.answer), d.now.Add(d.t.answer-d.p.Tick))
	if number == d.p.ProbeCount {
		until = until.Add(d.t.early)
	}
	d.s.Silence.Probes = uint8(number)
	return d.enter(Probing, NoAnswer, until)
}
