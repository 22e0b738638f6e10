package rules

// Doom is the state of a condemned connection: it is closed whatever its peer says until then.
type Doom struct {
	Why Reason // or 0
	End End
}

// End is when a condemned connection is closed.
type End uint8

// The ends of condemned connections.
const (
	WhenAllowed   End = iota // when the rate allows it
	AtOnce                   // whatever the rate
	Between                  // when no exchange is under way, whatever the rate
	UnlessRead               // when the rate allows it, unless bytes have come within ReadIdle by then
	UnlessWritten            // when the rate allows it, unless bytes were sent within WriteIdle by then
)

// isPaced reports whether the rate bounds it.
func (e End) isPaced() bool { return e != AtOnce && e != Between }

// isSealed reports whether no other limit counts any more. Until the end of an exchange, which may take long, all do.
func (q Doom) isSealed() bool { return q.Why != 0 && q.End != Between }

// Condemned returns the state of a connection to close at once.
func (s State) Condemned(why Reason) State {
	s.Doom = Doom{Why: why, End: AtOnce}
	return s
}

// Dismissed returns the state of a connection to close between two exchanges.
func (s State) Dismissed(why Reason) State {
	if s.Doom.Why == 0 || s.Doom.End != AtOnce {
		s.Doom = Doom{Why: why, End: Between}
	}
	return s
}

// doom condemns a connection. It reports false if the decision goes on. The rate does not bound a dismissed connection:
// a drain has its own pace, and must not be forgotten if its peer is heard meanwhile.
func (d *decision) doom(why Reason, end End) (Outcome, bool) {
	if d.p.DryRun {
		d.out.Would[why] = true
		return Outcome{}, false
	}
	if !d.p.Paced || d.s.Doom.Why != 0 {
		end = AtOnce
	}
	d.s.Doom = Doom{Why: why, End: end}
	return d.finish(), true
}

// doomed decides about a condemned connection. Until the rate allows its close, its peer may still fall
// silent. Each visit tries anew: so the instant of the next try needs no place in State.
func (d *decision) doomed() (Outcome, bool) {
	q := d.s.Doom
	switch {
	case q.Why == 0, q.End.isPaced() && d.e.Retry > 0:
		return Outcome{}, false
	case q.End == Between, q.Why == MaxAge && q.End == WhenAllowed && d.p.MaxGrace == 0:
		out, wanted, yes := d.requested(d.e.Exchange)
		if yes && q.End != Between { // begun meanwhile
			d.s.Doom, d.s.AgeOver = Doom{}, false
		}
		if wanted || yes {
			return out, wanted
		}
	case q.End >= UnlessRead:
		if out, wanted := d.look(0); wanted {
			return out, true
		}
		if _, end := d.idleFor(idleReasons[q.End-UnlessRead]); d.socket.Asked < end || d.s.Holds > 0 { // rescued
			d.s.Doom = Doom{}
			d.s.Idles.At = d.socket.Asked
			return Outcome{}, false
		}
	}
	return d.finish(), true
}

// finish closes a condemned connection, if the rate allows it or does not matter.
func (d *decision) finish() Outcome {
	if d.p.Paced && d.s.Doom.End.isPaced() && !d.e.Allowed {
		return Outcome{Do: Reserve, Why: d.s.Doom.Why}
	}
	return Outcome{Do: Close, Why: d.s.Doom.Why, Anyway: true}
}

// IsLeaving reports whether a connection is to be closed, and only waits for the rate, or for the end of an exchange.
// quiet is Evidence.Quiet.
func (s State) IsLeaving(quiet bool) bool {
	return s.Doom.Why != 0 || quiet && s.Silence.Stage == Leaving
}
