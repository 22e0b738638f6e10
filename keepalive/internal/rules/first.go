package rules

// Open returns the state of a new connection.
func Open(p *Policy, e Evidence, now Time) State {
	s := Adapt(p, State{}, e, now)
	if p.First > 0 {
		s.Silence = Silence{Stage: Opened, Why: FirstMessage, Until: e.Born.Add(p.First)}
	}
	if p.MaxAge > 0 {
		s.Age.From = max(e.Born, 1) // since 0 means none
	}
	if p.MinBeat > 0 || p.MinRate > 0 {
		s.Rates = Rates{Began: e.Born, Next: e.Born.Add(window)}
	}
	s.Idles.At = e.Born.Add(p.idlePeriod())
	return s
}

// Adapt returns the state of a connection after a change of the policy. A maximum age counts
// from then for a connection without one.
func Adapt(p *Policy, s State, e Evidence, now Time) State {
	s.Age, s.AgeOver = p.adaptAge(s.Age, e.Draw, now), false // and it is closed after a dry run
	s.Rates = p.adaptRates(s.Rates)
	s.Idles = Idles{}
	if q := s.Silence; q.Stage == Ignored || q.Stage == Waiting && p.DryRun { // by the policy before
		s.Silence = Silence{Edge: q.Edge}
	}
	if p.DryRun && !s.Doom.Now {
		s.Doom = Doom{}
	}
	return s
}
