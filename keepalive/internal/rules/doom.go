package rules

// Doom is the state of a connection that is to be closed whatever its peer says until then.
type Doom struct {
	Why Reason // or 0
	Now bool   // it does not wait for a turn
}

// Condemned returns the state of a connection that is to be closed at once.
func (s State) Condemned(why Reason) State {
	s.Doom = Doom{Why: why, Now: true}
	return s
}

// doom condemns a connection. It reports false if that does not end the decision.
func (d *decision) doom(why Reason) (Outcome, bool) {
	if d.p.DryRun {
		d.out.Would = why
		return Outcome{}, false
	}
	d.s.Doom = Doom{Why: why, Now: !d.p.Paced}
	if d.p.Paced && !d.e.Turn {
		return Outcome{Do: Queue, Why: why}, true
	}
	return Outcome{Do: Close, Why: why, Anyway: true}, true
}

// doomed decides about a connection that was condemned. While it waits for its turn, its
// peer may still fall silent.
func (d *decision) doomed() (Outcome, bool) {
	q := d.s.Doom
	if q.Why == 0 || !q.Now && !d.e.Turn {
		return Outcome{}, false
	}
	if q.Why == ReadIdle || q.Why == WriteIdle {
		if out, wanted := d.look(); wanted {
			return out, true
		}
		if why, next := d.idle(); why != q.Why { // rescued
			d.s.Doom = Doom{}
			d.s.Idles.Spent, d.s.Idles.At = false, next
			return Outcome{}, false
		}
	}
	return Outcome{Do: Close, Why: q.Why, Anyway: true}, true
}

// Waits reports whether a connection waits for its turn to be closed. quiet is that of
// Evidence.
func (s State) Waits(quiet bool) bool {
	return s.Doom.Why != 0 || quiet && s.Silence.Stage == Waiting
}
