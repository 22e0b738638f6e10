package rules

import "time"

// LastWord is how long a connection stays after an exchange, and after its program was told of the end: the
// next request may be on its way, and the program may have to say goodbye. net/http takes a second for a GOAWAY.
const LastWord = 1500 * time.Millisecond

// maxArrival is how long a request that has begun to arrive may take to arrive as a whole, and to be read by this program.
const maxArrival = 10 * time.Second

// Doom is the state of a condemned connection: it is closed whatever its peer says until then.
type Doom struct {
	Why Reason // or 0
	End End
}

// End is when a condemned connection is closed.
type End uint8

// The ends of condemned connections.
const (
	WhenAllowed   End = iota // when the pace allows it
	AtOnce                   // whatever the pace
	Between                  // when no exchange is under way, whatever the pace
	AfterGrace               // the same, once the user was told, and the grace of a maximum age is over
	UnlessRead               // when the pace allows it, unless bytes have come within ReadIdle by then
	UnlessWritten            // when the pace allows it, unless bytes were sent within WriteIdle by then
	UnlessTaken              // when the pace allows it, unless the peer has taken bytes that waited by then
)

// isPaced reports whether the pace bounds it.
func (e End) isPaced() bool { return e != AtOnce && !e.isLong() }

// isLong reports whether the end may be far away: an exchange, or a grace, may take long.
func (e End) isLong() bool { return e == Between || e == AfterGrace }

// isSealed reports whether no other limit counts any more.
func (q Doom) isSealed() bool { return q.Why != 0 && !q.End.isLong() }

// Condemned returns the state of a connection to close at once.
func (s State) Condemned(why Reason) State {
	s.Doom = Doom{Why: why, End: AtOnce}
	return s
}

// Dismissed returns the state of a connection to close between two exchanges.
func (s State) Dismissed(why Reason) State {
	if s.Doom.End != AtOnce {
		s.Doom = Doom{Why: why, End: Between}
	}
	return s
}

// Warned returns the state of a connection to close between two exchanges, once the user was told, and the grace is over.
func (s State) Warned(why Reason) State {
	s.Doom = Doom{Why: why, End: AfterGrace}
	return s
}

// doom condemns a connection. It reports false if the decision goes on. The rate does not bound a dismissed connection:
// a drain has its own pace, and must not be forgotten if its peer is heard meanwhile.
func (d *decision) doom(why Reason, end End) (Outcome, bool) {
	if d.p.DryRun {
		d.out.Would[min(why, Check)] = true
		return Outcome{}, false
	}
	if d.s.Doom.Why != 0 {
		end = AtOnce
	}
	d.s.Doom = Doom{Why: why, End: end}
	return d.doomed()
}

// doomNext returns when a condemned connection is closed. Until the pace allows its close, its peer may still fall
// silent. Each visit tries anew: so the instant of the next try needs no place in State.
func (d *decision) doomNext() Time {
	switch q := d.s.Doom; {
	case q.Why == 0:
		return Never
	case q.End == Between:
		return d.e.Exchange
	case q.End == AfterGrace && d.s.Age.Told != 0:
		return d.s.Age.Told.Add(d.p.MaxGrace)
	case !q.End.isPaced(), !d.p.Paced:
		return 0
	}
	return d.e.Retry
}

// doomed closes a condemned connection, unless it is rescued.
func (d *decision) doomed() (Outcome, bool) {
	if d.s.Doom.End == AfterGrace {
		if d.s.Age.Told == 0 {
			return d.tell(d.s.Doom.Why), true
		}
		d.s.Doom.End, d.s.Age.Told = Between, 0 // its age has a grace of its own
	}
	switch q := d.s.Doom; {
	case q.End == Between && d.isRequested(d.e.Exchange):
		return Outcome{}, false
	case q.Why == MaxAge && q.End == WhenAllowed && d.p.MaxGrace == 0 && d.isRequested(d.e.Exchange): // begun since the decision
		d.s.Doom, d.s.AgeOver = Doom{}, false
		return Outcome{}, false
	case q.End == UnlessTaken:
		if d.overdue() == 0 {
			d.s.Doom = Doom{}
			return Outcome{}, false
		}
	case q.End >= UnlessRead:
		if _, end := d.idleFor(int(q.End - UnlessRead)); d.now < end || d.s.Holds > 0 {
			d.s.Doom = Doom{}
			return Outcome{}, false
		}
	}
	return Outcome{Do: Close, Why: d.s.Doom.Why, Anyway: true, Paced: d.p.Paced && d.s.Doom.End.isPaced(), Reset: d.s.Doom.End == UnlessTaken}, true
}

// EndsBetween returns why the connection is to end between two exchanges, or 0.
func (s State) EndsBetween() Reason {
	switch {
	case s.Doom.End.isLong():
		return s.Doom.Why
	case s.Age.Told != 0:
		return MaxAge
	}
	return 0
}

// isRequested reports whether a request of a connection with exchanges is under way, or has begun to arrive, read or
// unread: then the connection is not to be closed between two exchanges. Bytes that may be something else, such as a
// handshake, stand for a request until the last word after them is over. end is when the connection was to be closed.
func (d *decision) isRequested(end Time) bool {
	if d.now < d.e.Exchange || d.e.Exchange == 0 {
		return d.e.Exchange != 0
	}
	k := &d.e.Socket
	recent := k.Received != Unknown && k.Received.Add(LastWord) > d.now
	return (k.Unread > 0 || d.e.Arriving || recent) && d.now < end.Add(maxArrival)
}

// IsLeaving reports whether a connection is to be closed, and only waits for the pace, a grace, or the end of an exchange.
// quiet is Evidence.Quiet.
func (s State) IsLeaving(quiet bool) bool {
	return s.Doom.Why != 0 || quiet && s.Silence.Stage == Leaving
}

// evicted closes one of the idlest connections, which has to make room, unless it was heard.
func (d *decision) evicted() (Outcome, bool) {
	d.s.Evicted = false
	switch k := &d.e.Socket; {
	case !d.e.Due, d.e.Touched.Add(d.p.EvictIdle) > d.now: // touched meanwhile; it may be due again, for something else
	case d.s.Holds > 0: // and not the idlest any more
		return d.hear(d.now), true
	case d.e.Life != Touches && k.Heard != Unknown && k.Heard.Add(d.p.EvictIdle) > d.now:
		return d.hear(k.Heard), true
	case k.Unread > 0: // it is read first
	case d.p.DryRun:
		d.out.Would[Evicted] = true
	default:
		return Outcome{Do: Close, Why: Evicted}, true
	}
	return Outcome{}, false
}
