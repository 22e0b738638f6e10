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
	Edge   uint8  // edges counted
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

// silence decides about the silence of the peer.
func (d *decision) silence() Outcome {
	d.countEdges()
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
		return d.held(due)
	}
	if out, wanted := d.look(due); wanted {
		return out
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
	return d.silent(why)
}

// isEarly reports whether the present stage has ended before a timeout that has become longer meanwhile.
func (d *decision) isEarly() bool {
	switch q := d.s.Silence; q.Stage {
	case Listening: // and had more time, since this program was slow
		patience, _ := d.patience()
		return d.e.Touched.Add(patience) > d.now
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
	patience, why := d.patience()
	switch {
	case q.Stage == Leaving && d.e.Allowed:
		return min(d.e.Begun, d.now), q.Why // the clock may go back after a stop
	case q.Stage != Listening:
		return q.Until, q.Why
	case q.Slow:
		return q.Until, why
	}
	return d.e.Touched.Add(patience), why
}

// patience returns how long a peer may be silent until something is to be decided, if its
// silence has come to no further stage, and the reason.
func (d *decision) patience() (time.Duration, Reason) {
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

// heard reports whether the socket has heard of the peer, or may have, and what follows. due
// is the passed deadline.
func (d *decision) heard(due Time) (Outcome, bool) {
	k, q, was := d.socket, d.s.Silence, d.s.Silence.Seen
	d.note()
	touches := d.e.Life == Touches
	patience, _ := d.patience()
	alive := k.Signs != was.Signs // since the socket was last asked
	switch q.Stage {
	case Listening:
		alive = k.Heard.Add(patience) > k.Asked
	case Opened:
		alive = k.Signs > 0
	}
	// Bytes seen at once with the last touch seem to come after it: the kernel's figures are
	// only as exact as its own ticks.
	fresh := k.Received > d.e.Touched.Add(d.p.Tick) && k.Received.Add(patience) > k.Asked
	took := k.Taken != was.Taken                  // or was, before the first look in this silence
	unseen := d.e.Life == Arrivals                // nobody touches for what is read
	late := d.readLate(due) && q.Stage != Ignored // an ignored silence ends only with a sign of life
	switch {
	case q.Stage == Opened && alive && d.e.Changed: // the change was a touch, and nobody is slow
		d.endSilence()
		return Outcome{Do: Heard, Until: d.now}, true
	case k.Heard != Unknown && alive && !touches:
		return d.hear(k.Heard), true
	case q.Stage == Extended && d.now < due:
		return Outcome{}, false
	case k.Backlog && k.Took.Add(patience) > k.Asked:
		return d.hear(k.Took), true // it can't see a probe behind these bytes
	case unseen && k.Unread == 0 && (q.Slow || late):
		return d.hear(d.now), true // the peer waits for an answer
	case (k.Full || q.Full) && d.now >= due && q.Stage != Ignored && d.heldUp(took || !k.Full):
		return d.slow(d.s.Silence.Rounds, d.now.Add(patience)), true
	case k.Hidden && d.now >= due && q.Stage != Ignored && q.Rounds < maxRounds:
		return d.slow(q.Rounds+1, d.now.Add(patience)), true
	case k.Unread > 0 && touches && fresh && q.Slow && !took:
		return d.slow(q.Rounds, k.Received.Add(patience)), true // nobody reads at all
	case k.Unread > 0 && !touches && took && (q.Slow || unseen || k.Moves):
		return d.slow(0, d.now.Add(patience)), true // somebody reads, more slowly than the peer sends
	case d.now >= due && q.Rounds < maxRounds && (k.Unread > 0 || touches && fresh):
		return d.slow(q.Rounds+1, d.now.Add(max(2*d.p.blur(), d.now.Sub(due)))), true
	}
	return Outcome{}, false
}

// heldUp reports whether the peer of a full receive queue, or of one that was full, could not send because of
// this program. As long as the queue is full, it is so. Once the program has read, the peer has a timeout to
// go on. If only touches are life, somebody who reads and does not touch gains some rounds at most.
func (d *decision) heldUp(read bool) bool {
	q := &d.s.Silence
	switch {
	case d.e.Life != Touches:
		q.Rounds = 0
	case read && q.Slow:
		if q.Rounds == maxRounds {
			return false
		}
		q.Rounds++
	}
	return true
}

// note notes what the socket says: only later signs of life are news.
func (d *decision) note() {
	q := &d.s.Silence
	q.Seen, q.Stuck, q.Full = Seen{Signs: d.socket.Signs, Taken: d.socket.Taken}, false, d.socket.Full
}

// readLate reports whether this program may have been too busy to read in time: the decision is late,
// and bytes were read since the last touch, as far as can be told. Received may be the beginning of a
// connection without any bytes, and then Heard is Unknown.
func (d *decision) readLate(due Time) bool {
	came := d.socket.Received
	if d.e.Unread { // Heard may have become that touch before they were read, as inexact as it is now
		came = d.socket.Heard.Add(d.socket.Heard.Sub(came))
	}
	lag := max(0, d.e.Slack-d.p.Tick) // how late the hand was in the tick of that touch
	return d.late(due) && d.socket.Heard != Unknown && came.Add(2*d.p.blur()+lag) > d.e.Touched
}

// late reports whether this visit began late, so the program seems to be busy. It was due with its timer, and
// not before the given instant. Since it began, the user may have taken long to answer, or to probe.
func (d *decision) late(due Time) bool {
	return d.e.Begun.Sub(max(d.e.DueAt, due)) > max(5*d.p.blur(), 50*time.Millisecond)
}

// hear counts a sign of life at an instant as a touch. If the next silence has lasted long enough since then,
// it is over now, and the next decision is not late.
func (d *decision) hear(at Time) Outcome {
	d.endSilence()
	patience, _ := d.patience()
	d.out.Spared, d.out.Slow = true, d.socket.Unread > 0
	return Outcome{Do: Heard, Until: max(at, d.now.Add(-patience))}
}

// slow gives this program time to read what is there, or to touch for what it has read.
func (d *decision) slow(rounds uint8, until Time) Outcome {
	d.out.Spared, d.out.Slow = true, d.socket.Unread > 0
	q := &d.s.Silence
	q.Slow, q.Rounds, q.Until = true, rounds, until
	return d.wait(until)
}

// silent decides about a silence beyond its deadline.
func (d *decision) silent(why Reason) Outcome {
	if number := d.nextProbe(); number > 0 {
		return d.probe(number)
	}
	return d.over(why)
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
	next.Edge, next.Rounds, next.Seen, next.Stuck, next.Full = q.Edge, q.Rounds, q.Seen, q.Stuck, q.Full
	if d.isFinal() && (next.Stage == Leaving || next.Stage == Ignored) {
		next.Probes = lastProbe
	}
	d.s.Silence = next
}

// wait waits until an instant, or until something may have to be decided before it.
func (d *decision) wait(until Time) Outcome {
	until = min(until, d.nextEdge())
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
