package rules

// A rule is a policy as a deadline. A new policy is a rule, and a row of the table.
type rule struct {
	// next returns when there is something to be decided even if the connection is touched until then, or Never.
	next func(p *Policy, s *State, e *Evidence) Time

	// decide decides, from next on. It reports false to leave the decision to the rules below.
	decide func(d *decision) (Outcome, bool)

	// adapt changes the state after a change of the policy, see Adapt. It is nil for a rule without a state.
	adapt func(p *Policy, s *State, e *Evidence, now Time)
}

// table has the rules in the order in which they decide. Whatever they leave is for the silence, whose deadline a touch moves.
var table = [...]rule{
	{next: ageNext, decide: (*decision).aged, adapt: ageAdapt},
	{next: rateNext, decide: (*decision).rated, adapt: rateAdapt},
	{next: stallNext, decide: (*decision).stalled, adapt: stallAdapt},
	{next: checkNext, decide: (*decision).checked},
	{next: idleNext, decide: (*decision).idled, adapt: idleAdapt},
}

// Limit returns the first instant at which something is to be decided even if the
// connection is touched until then.
func Limit(p *Policy, s State, e *Evidence) Time {
	limit := s.Doom.next(p, e)
	for i := range table {
		if !s.Doom.isSealed() {
			limit = min(limit, table[i].next(p, &s, e))
		}
	}
	return limit
}

// decide returns the decision of the first rule that makes one.
func (d *decision) decide() Outcome {
	if d.s.Doom.next(d.p, d.e) <= d.now {
		if out, decided := d.doomed(); decided {
			return out
		}
	}
	for i := range table {
		if r := &table[i]; !d.s.Doom.isSealed() && r.next(d.p, &d.s, d.e) <= d.now {
			if out, decided := r.decide(d); decided {
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
	if p.DryRun && s.Doom.End.isPaced() {
		s.Doom = Doom{}
	}
	silenceAdapt(p, &s, now)
	for i := range table {
		if adapt := table[i].adapt; adapt != nil {
			adapt(p, &s, e, now)
		}
	}
	return s
}
