package rules

import (
	"cmp"
	"time"
)

// Silence is how far the present silence of a connection has led. It ends with any touch. A
// touch does not have to clear anything, since Evidence.Quiet tells.
type Silence struct {
	Stage  Stage
	Probes uint8  // number of the last probe
	Rounds uint8  // how often the connection was given more time because this program is slow
	Slow   bool   // it has more time now
	Full   bool   // unread bytes filled the receive queue when the socket was last asked
	Stuck  bool   // the peer of a held connection did not take all that was written
	Why    Reason // of the closing to come
	Until  Time   // end of the stage, or of more time
	Seen   Seen
}

// Seen is what the socket said when it was last asked because of this silence.
type Seen struct {
	Signs uint64 // if Silence.Stuck, Socket.Acked
	Taken uint64
}

// Stage is what a connection waits for in its silence.
type Stage uint8

// The stages of a silence.
const (
	Listening Stage = iota // for its timeout
	Opened                 // for its first message
	Probing                // for the answer to a probe
	Taking                 // for the peer of a held connection to take what was written
	Extended               // as the user has said
	Leaving                // for the rate to allow its close
	Ignored                // for nothing: this silence does not matter
)

// maxRounds is how often in a silence a connection is given more time because this program
// seems to be slow. A hanging program must not keep its dead connections.
const maxRounds = 3

func silenceAdapt(p *Policy, s *State, now Time) {
	switch q := s.Silence; {
	case q.Stage == Ignored, q.Stage == Leaving && p.DryRun: // by the policy before
		s.Silence = Silence{}
	case (q.Stage == Probing || q.Stage == Leaving && q.Why == NoAnswer) && q.Probes != lastProbe && p.ProbeCount == 0: // the timeout counts now
		s.Silence = Silence{Rounds: q.Rounds, Seen: q.Seen, Full: q.Full}
	case q.Stage == Leaving && !q.Slow: // the rate may be another one
		s.Silence.Until = now
	}
}

// silent decides what comes of the silence of the peer.
func (d *decision) silent() Outcome {
	due, why := d.deadline()
	changed := d.s.Silence.Stage == Opened && d.e.Changed
	sent := d.sentProbe()
	switch {
	case !d.e.Due:
		return d.wait(due)
	case d.isSpared() && !changed: // though the end may have moved since the question
		out, _ := d.obey(d.e.Answer.For)
		return out
	case sent == lastProbe, sent > 0 && d.now >= due: // its answer is to come, and nobody looks for it yet
		return d.listen(sent)
	case d.now < due && d.pollsEvery() == 0 && !changed:
		return d.wait(due)
	case d.e.Anew: // another visit decides about the silence since then
		return d.wait(d.now.Add(d.p.Tick))
	case d.s.Holds > 0:
		return d.held()
	}
	if out, heard := d.heard(due); heard {
		return out
	}
	switch {
	case d.now < due:
		return d.wait(due)
	case d.s.Silence.Stage == Ignored:
		return d.ignore(d.s.Silence.Why)
	case d.isEarly():
		d.enter(Silence{})
		due, _ := d.deadline()
		return d.wait(due)
	case d.s.Silence.Stage == Leaving:
		return d.close(d.s.Silence.Why)
	}
	if number := d.nextProbe(); number > 0 {
		return d.probe(number)
	}
	return d.over(why)
}

// isEarly reports whether the present stage has ended before a timeout that has become longer meanwhile.
func (d *decision) isEarly() bool {
	switch q := d.s.Silence; q.Stage {
	case Listening: // and had more time, since this program was slow
		return d.e.Touched.Add(d.patience()) > d.now
	case Extended, Leaving:
		timeout := d.p.pressed(d.p.timeout(d.s), d.e.Pressure)
		gone := q.Why == NoAnswer && d.p.ProbeCount == 0 && !d.isFinal() // the probes are
		return (q.Why == Idle || gone) && d.e.Touched.Add(timeout) > d.now
	}
	return false
}

// deadline returns the end of the present stage, and why the connection is closed if nothing
// more comes.
func (d *decision) deadline() (Time, Reason) {
	q := d.s.Silence
	after, why := d.step()
	switch {
	case q.Stage == Leaving && d.e.Allowed:
		return min(d.e.Begun, d.now), q.Why // the clock may go back after a stop
	case q.Stage != Listening:
		return q.Until, q.Why
	case q.Slow:
		return q.Until, why
	}
	return d.e.Touched.Add(after), why
}

// patience returns how long a peer may be silent until the first step.
func (d *decision) patience() time.Duration {
	after, _ := d.step()
	return after
}

// step returns after what silence something is to be decided, if it has come to no further stage, and the reason.
func (d *decision) step() (time.Duration, Reason) {
	if d.s.Silence.Stage == Opened {
		return cmp.Or(d.p.First, d.p.timeout(d.s)), FirstMessage
	}
	full := d.p.timeout(d.s)
	timeout := d.p.pressed(full, d.e.Pressure)
	if d.p.ProbeCount > 0 {
		if after := d.p.probeAfter(full, d.e.Draw); after < timeout {
			return after, NoAnswer
		}
	}
	return timeout, Idle
}

// held decides about a connection while this program is busy with it. Its silence does not
// count, unless the peer takes nothing of what this program has written: then the silence ends
// a timeout after that was first seen.
func (d *decision) held() Outcome {
	k, q := &d.e.Socket, d.s.Silence
	until := d.now.Add(d.p.timeout(d.s))
	switch {
	case !k.Pending:
		d.s.Silence.Stuck = false
		return Outcome{Do: Wait, Until: until}
	case !q.Stuck, q.Seen.Signs != k.Acked: // it is news, or the peer has taken something since
		d.enter(Silence{Stage: Taking, Why: Idle, Until: until})
		d.s.Silence.Seen, d.s.Silence.Stuck = Seen{Signs: k.Acked}, true
		return Outcome{Do: Wait, Until: until}
	case q.Stage == Ignored:
		return d.ignore(q.Why)
	case q.Stage == Leaving:
		return d.close(q.Why)
	}
	return d.over(q.Why)
}

// over decides about a silence that nothing can end any more but the user's word.
func (d *decision) over(why Reason) Outcome {
	if d.p.Asks && !d.isFinal() {
		if d.e.Answer.For != why {
			return Outcome{Do: Ask, Why: why}
		}
		out, spared := d.obey(why)
		if spared {
			return out
		}
		why = d.reason(d.e.Answer, why)
	}
	if d.p.DryRun {
		d.out.Would[why] = true
		return d.ignore(why)
	}
	return d.close(why)
}

// close closes a connection for its silence when the rate allows it, and else tries again in another visit.
func (d *decision) close(why Reason) Outcome {
	if !d.p.Paced || d.e.Allowed {
		return Outcome{Do: Close, Why: why}
	}
	d.enter(Silence{Stage: Leaving, Why: why, Until: cmp.Or(d.e.Retry, d.now)})
	if d.e.Retry > 0 {
		return d.wait(d.e.Retry)
	}
	return Outcome{Do: Reserve, Why: why}
}

// ignore leaves a connection alone until it is heard again. It is still asked now and then:
// if nobody touches, nothing else tells.
func (d *decision) ignore(why Reason) Outcome {
	d.enter(Silence{Stage: Ignored, Why: why, Until: d.now.Add(d.p.timeout(d.s))})
	return d.wait(d.s.Silence.Until)
}

// enter begins a stage of the present silence.
func (d *decision) enter(next Silence) {
	q := d.s.Silence
	next.Rounds, next.Seen, next.Stuck, next.Full = q.Rounds, q.Seen, q.Stuck, q.Full
	if d.isFinal() && (next.Stage == Leaving || next.Stage == Ignored) {
		next.Probes = lastProbe
	}
	d.s.Silence = next
}

// wait waits until an instant, or until something may have to be decided before it.
func (d *decision) wait(until Time) Outcome {
	every := d.pollsEvery()
	if d.s.Silence.Stage == Listening && d.p.Pressed > 0 { // pressure may rise
		every = d.p.Hop(d.s, d.e.Draw)
	}
	if every > 0 {
		until = min(until, d.now.Add(every))
	}
	return Outcome{Do: Wait, Until: until}
}

// pollsEvery returns how often the socket is asked before the end of the present stage, or 0 for never. A
// timeout begins with a sign of life, and an answer is to be heard of soon.
func (d *decision) pollsEvery() time.Duration {
	switch stage := d.s.Silence.Stage; {
	case d.s.Holds > 0: // no silence
	case d.e.Life.Untold() && (stage == Opened || stage == Extended):
		return d.p.Hop(d.s, d.e.Draw)
	case d.e.Life == Arrivals && stage == Probing:
		return max(d.p.answerTime(d.p.timeout(d.s))/4, d.p.Tick)
	}
	return 0
}
