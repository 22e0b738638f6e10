package rules

import "time"

// examine asks the socket's answer three questions when a silence seems to be over at an instant: has the peer said
// something, has it taken something, and could it? It reports whether one of them goes on with the connection, and how.
func (d *decision) examine(due Time) (Outcome, bool) {
	q := d.s.Silence
	d.note()
	if at, alive := d.alive(q); alive {
		return at, true
	}
	if q.Stage == Extended && d.now < due { // nothing else is asked for before the user's time is over
		return Outcome{}, false
	}
	if out, takes := d.backlog(); takes {
		return out, true
	}
	return d.slowToRead(q, due)
}

// note notes what the socket says: only later signs of life are news.
func (d *decision) note() {
	k, q := &d.e.Socket, &d.s.Silence
	q.Signs, q.Taken, q.Full, q.Stuck = k.Signs, k.Taken, k.Full, false
}

// alive judges whether the socket has heard of the peer in this silence. If only touches are life, it can't have.
//
//	Timeout 16, bytes count when they arrive:
//	at 16   the last came at 9      a touch at 9: due at 25
//	at 25   the last came at 9      it is silent
//	Timeout 16, probed at 8, an answer must come by 12:
//	at 9    a byte more than at 8   a touch
//
// In later stages nothing but news counts: as much had arrived at their beginning already.
func (d *decision) alive(q Silence) (Outcome, bool) {
	k := &d.e.Socket
	alive := k.Signs != q.Signs
	switch q.Stage {
	case Listening:
		alive = k.Heard.Add(d.t.patience) > d.now
	case Opened:
		alive = k.Signs > 0
	}
	if alive && k.Heard != Unknown && d.e.Life != Touches {
		return d.hear(k.Heard), true
	}
	return Outcome{}, false
}

// backlog judges whether the peer takes what was written, if bytes wait for that. It can't see a probe behind them.
//
//	Timeout 16, bytes are written faster than the peer takes them:
//	at 16   it last took some at 12   a touch at 12: due at 28
//	at 28   it last took some at 12   it is silent
func (d *decision) backlog() (Outcome, bool) {
	if k := &d.e.Socket; k.Backlog && k.Took.Add(d.t.patience) > d.now {
		return d.hear(k.Took), true
	}
	return Outcome{}, false
}

// slowToRead judges whether the peer may have spoken, and this program has not read it yet, or has read it late. Then the
// program has more time, in rounds: one that hangs must not keep its dead connections. An ignored silence ends only
// with a sign of life.
//
//	Timeout 16, bytes count when they arrive, and some have waited since 3:
//	at 19   2 unread, 0 read     more time until 21, the first round
//	at 21   1 unread, 1 read     somebody reads: a timeout, until 37
//	at 37   1 unread, 1 read     the first round again, until 39, and two more
//	at 43   1 unread, 1 read     it is over
//	The same, and the receive queue is full, so the peer can't send:
//	at 19   full                 more time until 35, and so on, however often
//	at 35   0 unread             the program was late: a touch now, until 51
func (d *decision) slowToRead(q Silence, due Time) (Outcome, bool) {
	k, counts, patience := &d.e.Socket, q.Stage != Ignored, d.t.patience
	touches, unseen := d.e.Life == Touches, d.e.Life == Arrivals // somebody touches for what is read, or nobody does
	passed, later := counts && d.now >= due, d.now.Add(patience)
	// The peer could not send, or can't still. Once the queue is read, it has a timeout to go on.
	heldUp := passed && (k.Full || q.Full)
	// Bytes seen at once with the last touch seem to come after it: the kernel's figures are
	// only as exact as its own ticks.
	fresh := k.Received > d.e.Touched.Add(d.p.Tick) && k.Received.Add(patience) > d.now
	took := k.Taken != q.Taken // or was, before the first look in this silence
	switch {
	case unseen && k.Unread == 0 && (q.Slow || counts && d.readLate(due)):
		return d.hear(d.now), true // the peer waits for an answer
	case heldUp && !touches:
		return d.slow(0, later), true
	case heldUp && (!q.Slow || k.Full && !took):
		return d.slow(q.Rounds, later), true
	case (heldUp || passed && k.Hidden) && q.Rounds < maxRounds:
		return d.slow(q.Rounds+1, later), true // somebody who reads without a touch, or sees nothing, gains some rounds at most
	case touches && k.Unread > 0 && fresh && q.Slow && !took:
		return d.slow(q.Rounds, k.Received.Add(patience)), true // nobody reads at all
	case !touches && k.Unread > 0 && took && (q.Slow || unseen || k.Moves):
		return d.slow(0, later), true // somebody reads, more slowly than the peer sends
	case d.now >= due && (k.Unread > 0 || touches && fresh) && q.Rounds < maxRounds:
		return d.slow(q.Rounds+1, d.now.Add(max(2*d.p.Blur, d.now.Sub(due)))), true
	}
	return Outcome{}, false
}

// readLate reports whether this program may have been too busy to read in time: the decision is late,
// and bytes were read since the last touch, as far as can be told. Received may be the beginning of a
// connection without any bytes, and then Heard is Unknown.
func (d *decision) readLate(due Time) bool {
	came := d.e.Socket.Received
	if d.e.Unread { // Heard may have become that touch before they were read, as inexact as it is now
		came = d.e.Socket.Heard.Add(d.e.Socket.Heard.Sub(came))
	}
	lag := max(0, d.e.Slack-d.p.Tick) // how late the hand was in the tick of that touch
	return d.late(due) && d.e.Socket.Heard != Unknown && came.Add(2*d.p.Blur+lag) > d.e.Touched
}

// late reports whether this visit began late, so the program seems to be busy. It was due with its timer, and
// not before the given instant. Since it began, the user may have taken long to answer, or to probe.
func (d *decision) late(due Time) bool {
	return d.e.Begun.Sub(max(d.e.DueAt, due)) > max(5*d.p.Blur, 50*time.Millisecond)
}

// hear counts a sign of life at an instant as a touch. If the next silence has lasted long enough since then,
// it is over now, and the next decision is not late.
func (d *decision) hear(at Time) Outcome {
	d.s.Silence = Silence{}
	d.out.Spared, d.out.Slow = true, d.e.Socket.Unread > 0
	return Outcome{Do: Heard, Until: max(at, d.now.Add(-min(d.t.pressed, d.t.probe)))}
}

// slow gives this program time to read what is there, or to touch for what it has read.
func (d *decision) slow(rounds uint8, until Time) Outcome {
	d.out.Spared, d.out.Slow = true, d.e.Socket.Unread > 0
	q := &d.s.Silence
	q.Slow, q.Rounds, q.Until = true, rounds, until
	return d.wait(until)
}
