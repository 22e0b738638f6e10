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
	AtItsTurn     End = iota
	AtOnce            // it does not wait for a turn
	Between           // when no exchange is under way
	UnlessRead        // at its turn, unless bytes have come within ReadIdle by then
	UnlessWritten     // at its turn, unless bytes were sent within WriteIdle by then
)

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

// doom condemns a connection. It reports false if the decision goes on. A dismissed connection waits for no turn: a
// drain has its own pace, and must not be forgotten if its peer is heard meanwhile.
func (d *decision) doom(why Reason, end End) (Outcome, bool) {
	if d.p.DryRun {
		d.out.Would[why] = true
		return Outcome{}, false
	}
	paced := d.p.Paced && d.s.Doom.Why == 0
	if !paced {
		end = AtOnce
	}
	d.s.Doom = Doom{Why: why, End: end}
	if paced && !d.e.Turn {
		return Outcome{Do: Queue, Why: why}, true
	}
	return Outcome{Do: Close, Why: why, Anyway: true}, true
}

// doomed decides about a condemned connection. While it waits for its turn, its
// peer may still fall silent.
func (d *decision) doomed() (Outcome, bool) {
	q := d.s.Doom
	switch {
	case q.Why == 0:
		return Outcome{}, false
	case q.End != AtOnce && q.End != Between && !d.e.Turn:
		return Outcome{}, false
	case q.End == Between, q.Why == MaxAge && q.End == AtItsTurn && d.p.MaxGrace == 0:
		out, wanted, yes := d.requested(d.e.Exchange)
		if yes && q.End != Between { // begun while it waited
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
	return Outcome{Do: Close, Why: q.Why, Anyway: true}, true
}

// Waits reports whether a connection waits for its turn to be closed. quiet is
// Evidence.Quiet.
func (s State) Waits(quiet bool) bool {
	return s.Doom.Why != 0 || quiet && s.Silence.Stage == Waiting
}
