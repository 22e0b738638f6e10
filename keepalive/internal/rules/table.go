package rules

// A rule is a policy as a deadline. A new policy is a rule, and a row of the table. A function that it does not need is nil.
type rule struct {
	// next returns when there is something to be decided even if the connection is touched until then, or Never.
	next func(p *Policy, s *State, e *Evidence) Time

	// decide decides, from next on. It reports false to leave the decision to the rules below.
	decide func(d *decision) (Outcome, bool)

	// open makes the state of a new connection.
	open func(p *Policy, s *State, e *Evidence)

	// adapt changes the state after a change of the policy, see Adapt.
	adapt func(p *Policy, s *State, e *Evidence, now Time)

	// always says that the rule is in force for a connection whose doom is sealed, too.
	always bool
}

// table has the rules in the order in which they decide. Whatever they leave is for the silence, whose deadline a touch moves.
var table = [...]rule{
	{next: doomNext, decide: (*decision).doomed, adapt: doomAdapt, always: true},
	{next: ageNext, decide: (*decision).aged, open: ageOpen, adapt: ageAdapt},
	{next: rateNext, decide: (*decision).rated, open: rateOpen, adapt: rateAdapt},
	{next: checkNext, decide: (*decision).checked},
	{next: idleNext, decide: (*decision).idled, open: idleOpen, adapt: idleAdapt},
	{next: evictNext, decide: (*decision).evicted, always: true},
	{open: silenceOpen, adapt: silenceAdapt},
}

// limit is next, or Never if the rule is not in force.
func (r *rule) limit(p *Policy, s *State, e *Evidence) Time {
	if r.next == nil || !r.always && s.Doom.isSealed() {
		return Never
	}
	return r.next(p, s, e)
}

// Limit returns the first instant at which something is to be decided even if the
// connection is touched until then.
func Limit(p *Policy, s State, e *Evidence) Time {
	limit := Never
	for i := range table {
		limit = min(limit, table[i].limit(p, &s, e))
	}
	return limit
}

// decide returns the decision of the first rule that makes one.
func (d *decision) decide() Outcome {
	for i := range table {
		if r := &table[i]; r.limit(d.p, &d.s, d.e) <= d.now {
			if out, decided := r.decide(d); decided {
				return out
			}
		}
	}
	return d.silent()
}

// Open returns the state of a new connection.
func Open(p *Policy, e *Evidence) (s State) {
	for _, r := range table {
		if r.open != nil {
			r.open(p, &s, e)
		}
	}
	return s
}

// Adapt returns the state of a connection after a change of the policy. A maximum age counts
// from then for a connection without one.
func Adapt(p *Policy, s State, e *Evidence, now Time) State {
	for _, r := range table {
		if r.adapt != nil {
			r.adapt(p, &s, e, now)
		}
	}
	return s
}
