package rules

import "time"

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
	Signs  uint64 // Socket.Signs when the socket was last asked because of this silence; Socket.Acked if Stuck
	Taken  uint64 // Socket.Taken then
}

// Stage is what a connection waits for in its silence.
type Stage uint8

// The stages of a silence.
const (
	Listening Stage = iota // for its timeout
	Opened                 // for its first message
	Probing                // for the answer to a probe
	Extended               // as the user has said; if the connection is held, for its peer to take what was written
	Leaving                // for the pace to allow its close
	Ignored                // for nothing: this silence does not matter
)

// maxRounds is how often in a silence a connection is given more time because this program
// seems to be slow. A hanging program must not keep its dead connections.
const maxRounds = 3

// again returns a silence that has come to no further stage. What this program had to do with it counts on.
func (q Silence) again() Silence {
	return Silence{Rounds: q.Rounds, Signs: q.Signs, Taken: q.Taken, Full: q.Full}
}

func (d *decision) silenceAdapt() {
	switch q := d.s.Silence; {
	case q.Stage == Ignored, q.Stage == Leaving && d.p.DryRun: // by the policy before
		d.s.Silence = Silence{}
	case (q.Stage == Probing || q.Stage == Leaving && q.Why == NoAnswer) && !d.isFinal() && d.p.ProbeCount == 0: // the timeout counts now
		d.s.Silence = q.again()
	case q.Stage == Leaving && !q.Slow: // the pace may be another one
		d.s.Silence.Until = d.now
	}
}

// silent decides what comes of the silence of the peer.
func (d *decision) silent() Outcome {
	due, why := d.deadline()
	if !d.e.Due {
		return d.wait(due)
	}
	if d.s.Silence.Stage == Opened && d.e.Changed && d.e.Socket.Signs > 0 { // the change was a touch, and nobody is slow
		d.s.Silence = Silence{}
		return Outcome{Do: Heard, Until: d.now}
	}
	if out, spared := d.obey(); spared {
		return out
	}
	switch {
	case d.now < due && d.pollsEvery() == 0:
		return d.wait(due)
	case d.e.Anew: // another visit decides about the silence since then
		return d.wait(d.now.Add(d.p.Tick))
	case d.s.Silence.Stage == Leaving && d.e.Retry > 0 && !d.s.Doom.isSealed(): // just now it was over, and the pace did not allow its close
		return d.over(why)
	case d.s.Holds > 0:
		return d.held()
	case d.e.Answer.Probed == Sent && d.now >= due && d.nextProbe() > 0: // its answer is to come, and nobody looks for it yet
		return d.listen(d.nextProbe())
	}
	if out, heard := d.examine(due); heard {
		return out
	}
	switch {
	case d.now < due:
		return d.wait(due)
	case d.isEarly():
		d.s.Silence = d.s.Silence.again()
		due, _ := d.deadline()
		return d.wait(due)
	case d.nextProbe() > 0:
		return Outcome{Do: Probe}
	}
	return d.over(why)
}

// isEarly reports whether the present stage has ended before a timeout that has become longer meanwhile.
func (d *decision) isEarly() bool {
	switch q := d.s.Silence; q.Stage {
	case Listening: // and had more time, since this program was slow
		return d.e.Touched.Add(d.t.patience) > d.now
	case Extended, Leaving:
		gone := q.Why == NoAnswer && d.p.ProbeCount == 0 && !d.isFinal() // the probes are
		return (q.Why == Idle || gone) && d.e.Touched.Add(d.t.pressed) > d.now
	}
	return false
}

// deadline returns the end of the present stage, and why the connection is closed if nothing
// more comes.
func (d *decision) deadline() (Time, Reason) {
	switch q := d.s.Silence; {
	case q.Stage != Listening:
		return q.Until, q.Why
	case q.Slow:
		return q.Until, d.t.then
	}
	return d.e.Touched.Add(d.t.patience), d.t.then
}

// held decides about a connection while this program is busy with it. Its silence does not
// count, unless the peer takes nothing of what this program has written: then the silence ends
// a timeout after that was first seen.
func (d *decision) held() Outcome {
	k, q := &d.e.Socket, &d.s.Silence
	until := d.now.Add(d.t.timeout)
	switch {
	case !k.Pending:
		q.Stuck = false
		return Outcome{Do: Wait, Until: until}
	case !q.Stuck, q.Signs != k.Acked: // it is news, or the peer has taken something since
		q.Probes, q.Stuck, q.Signs = 0, true, k.Acked
		return d.enter(Extended, Idle, until)
	}
	return d.over(q.Why)
}

// over decides about a silence that nothing can end any more but the user's word.
func (d *decision) over(why Reason) Outcome {
	if d.s.Silence.Stage == Ignored {
		return d.ignore(why)
	}
	if d.asks() {
		switch a := d.e.Answer; {
		case a.For != why:
			return Outcome{Do: Ask, Why: why}
		case a.Verdict == ProbeIt && d.p.ProbeCount > 0 && !d.isFailed():
			return Outcome{Do: Probe}
		}
		why = d.reason(d.e.Answer, why)
	}
	switch {
	case d.p.DryRun:
		d.out.Would[why] = true
		return d.ignore(why)
	case d.e.Retry > 0:
		return d.enter(Leaving, why, d.e.Retry)
	case d.p.Paced: // the state, if the pace does not allow it
		d.enter(Leaving, why, d.now)
	}
	return Outcome{Do: Close, Why: why, Paced: d.p.Paced}
}

// ignore leaves a connection alone until it is heard again. It is still asked now and then:
// if nobody touches, nothing else tells.
func (d *decision) ignore(why Reason) Outcome {
	return d.enter(Ignored, why, d.now.Add(d.t.timeout))
}

// enter begins a stage of the present silence, and waits for its end.
func (d *decision) enter(next Stage, why Reason, until Time) Outcome {
	q := &d.s.Silence
	q.Stage, q.Why, q.Until, q.Slow = next, why, until, false
	return d.wait(until)
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
		return max(d.t.answer/4, d.p.Tick)
	}
	return 0
}
