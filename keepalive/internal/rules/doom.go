package rules

// Doom is the state of a condemned connection: it is closed whatever its peer says until then.
type Doom struct {
	Why Reason // or 0
	Now bool   // it does not wait for a turn
}

// Condemned returns the state of a connection to close at once.
func (s State) Condemned(why Reason) State {
	s.Doom = Doom{Why: why, Now: true}
	return s
}

// doom condemns a connection. It reports false if the decision goes on.
func (d *decision) doom(why Reason) (Outcome, bool) {
	if d.p.DryRun {
		d.out.Would[why] = true
		return Outcome{}, false
	}
	d.s.Doom = Doom{Why: why, Now: !d.p.Paced}
	if d.p.Paced && !d.e.Turn {
		return Outcome{Do: Queue, Why: why}, true
	}
	return Outcome{Do: Close, Why: why, Anyway: true}, true
}

// doomed decides about a condemned connection. While it waits for its turn, its
// peer may still fall silent.
func (d *decision) doomed() (Outcome, bool) {
	q := d.s.Doom
	if q.Why == 0 || !q.Now && !d.e.Turn {
		return Outcome{}, false
	}
	if !q.Now && (q.Why == ReadIdle || q.Why == WriteIdle) {
		if out, wanted := d.look(0); wanted {
			return out, true
		}
		if _, end := d.idleFor(q.Why); d.socket.Asked < end || d.s.Holds > 0 { // rescued
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
