package rules

import "time"

// Answer is what the user has said of a connection.
type Answer struct {
	For     Reason // the reason in the question; 0 if nobody was asked
	Verdict Verdict
	Asked   Time // when the question was put
}

// Verdict is a verdict of the user: how much longer a connection may stay, or one of those
// below.
type Verdict time.Duration

// Verdicts that are no duration.
const (
	Condemn Verdict = 0  // close it
	ProbeIt Verdict = -1 // probe it once more
	Pardon  Verdict = -2 // ignore this silence
)

// obey does what the user has said about a silence. It reports false if the connection is to
// be closed.
func (d *decision) obey(why Reason) (Outcome, bool) {
	switch verdict := d.e.Answer.Verdict; {
	case verdict == Pardon:
		return d.ignore(why), true
	case verdict == ProbeIt && d.p.ProbeCount > 0 && d.e.Probed != Failed:
		return d.probe(lastProbe), true
	case verdict > 0:
		d.enter(Silence{Stage: Extended, Why: why, Until: d.now.Add(time.Duration(verdict))})
		return d.wait(d.s.Silence.Until), true
	}
	return Outcome{}, false
}

// afterProbe returns why a connection is closed after the user has spoken: NoAnswer if the
// user wanted a probe, and it could not be sent.
func (d *decision) afterProbe(why Reason) Reason {
	if d.e.Answer.Verdict == ProbeIt && d.e.Probed == Failed {
		return NoAnswer
	}
	return why
}
