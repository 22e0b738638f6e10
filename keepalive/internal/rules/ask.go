package rules

import "time"

// Answer is what the user has said of a connection, and what came of a probe.
type Answer struct {
	For     Reason // the reason in the question; 0 if nobody was asked
	Verdict Verdict
	Asked   Time // when the question was put
	Probed  Probed
}

// About returns the answer about a reason: each of ReadIdle and WriteIdle has one, and the silence of the peer.
func (e *Evidence) About(why Reason) *Answer {
	if why == ReadIdle || why == WriteIdle {
		return &e.Idle[why-ReadIdle]
	}
	return &e.Answer
}

// Question notes a question about a reason, and returns the answer to give. Until then it is to close the connection.
func (e *Evidence) Question(why Reason, now Time) *Answer {
	a := e.About(why)
	a.For, a.Verdict, a.Asked = why, Condemn, now
	if a.Probed == Sent { // before the question, and not because of its answer
		a.Probed = NotProbed
	}
	return a
}

// askedSince reports whether the user was asked about something else after an answer.
func (e *Evidence) askedSince(a Answer) bool {
	return max(e.Answer.Asked, e.Idle[0].Asked, e.Idle[1].Asked) > a.Asked
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

// isOpenToWords reports whether the user may have a say about this silence: not after the last word on it.
func (d *decision) isOpenToWords() bool { return !d.isFinal() && d.s.Silence.Stage != Leaving }

// asks reports whether the user is asked about the end of this silence.
func (d *decision) asks() bool { return d.p.Asks && d.isOpenToWords() }

// obey does what the user has said about this silence, though its end may have moved since the question. It reports false
// if that was to close the connection, or to probe it first. A probe that was sent has its time, even if nobody is
// asked any more.
func (d *decision) obey() (Outcome, bool) {
	switch a := d.e.Answer; {
	case a.For == 0 || !d.isOpenToWords():
	case a.Verdict == ProbeIt && a.Probed == Sent:
		return d.listen(lastProbe), true
	case !d.p.Asks:
	case a.Verdict == Pardon:
		return d.ignore(a.For), true
	case a.Verdict > 0:
		return d.enter(Extended, a.For, d.now.Add(time.Duration(a.Verdict))), true
	}
	return Outcome{}, false
}

// reason returns why a connection is closed after the user has spoken about a reason: NoAnswer if the
// user wanted a probe, and it could not be sent.
func (d *decision) reason(a Answer, why Reason) Reason {
	if a.Verdict == ProbeIt && d.isFailed() {
		return NoAnswer
	}
	return why
}
