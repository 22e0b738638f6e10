package rules

// A rule is a policy as a deadline. A new policy is a rule, and a row of the table.
type rule struct {
	// next returns when there is something to be decided even if the connection is touched until then, or Never. It has the
	// policy, the state and the evidence: Limit knows no instant.
	next func() Time

	// decide decides, from next on. It reports false to leave the decision to the rules below.
	decide func() (Outcome, bool)

	// adapt changes the state after a change of the policy, see Adapt. It is nil for a rule without a state.
	adapt func()
}

// table returns the rules in the order in which they decide. Whatever they leave is for the silence, whose deadline a touch
// moves. The compiler sees through the methods as long as it inlines the table: so a decision makes no garbage.
func (d *decision) table() [5]rule {
	return [...]rule{
		{d.ageNext, d.aged, d.ageAdapt},
		{d.rateNext, d.rated, d.rateAdapt},
		{d.stallNext, d.stalled, d.stallAdapt},
		{d.checkNext, d.checked, nil},
		{d.idleNext, d.idled, d.idleAdapt},
	}
}

// Limit returns the first instant at which something is to be decided even if the
// connection is touched until then.
func Limit(p *Policy, s State, e *Evidence) Time {
	d := &decision{p: p, s: s, e: e}
	limit := d.doomNext()
	for _, r := range d.table() {
		if !s.Doom.isSealed() {
			limit = min(limit, r.next())
		}
	}
	return limit
}

// decide returns the decision of the first rule that makes one.
func (d *decision) decide() Outcome {
	if d.doomNext() <= d.now {
		if out, decided := d.doomed(); decided {
			return out
		}
	}
	for _, r := range d.table() {
		if !d.s.Doom.isSealed() && r.next() <= d.now {
			if out, decided := r.decide(); decided {
				return out
			}
		}
	}
	if d.s.Evicted {
		if out, decided := d.evicted(); decided {
			return out
		}
	}
	return d.silent()
}

// Open returns the state of a new connection: everything begins with its opening.
func Open(p *Policy, e *Evidence) State {
	s := Adapt(p, State{}, e, e.Born)
	if p.First > 0 {
		s.Silence = Silence{Stage: Opened, Why: FirstMessage, Until: e.Born.Add(p.First)}
	}
	return s
}

// Adapt returns the state of a connection after a change of the policy. What the connection did not have before begins
// then: its age, and the window of its rates.
func Adapt(p *Policy, s State, e *Evidence, now Time) State {
	d := &decision{p: p, s: s, e: e, now: now}
	if p.DryRun && s.Doom.End.isPaced() {
		d.s.Doom = Doom{}
	}
	d.silenceAdapt()
	for _, r := range d.table() {
		if r.adapt != nil {
			r.adapt()
		}
	}
	return d.s
}
