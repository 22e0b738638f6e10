package rules

// Open returns the state of a new connection.
func Open(p *Policy, e Evidence, now Time) State {
	s := Adapt(p, State{}, e, now)
	if p.First > 0 {
		s.Silence = Silence{Stage: Opened, Why: FirstMessage, Until: e.Born.Add(p.First)}
	}
	if p.MaxAge > 0 {
		s.Age.From = e.Born
	}
	if s.Idles.On {
		s.Idles.At = e.Born.Add(least(p.ReadIdle, p.WriteIdle))
	}
	return s
}

// Adapt returns the state of a connection after a change of the policy. A maximum age counts
// from then for a connection that had none.
func Adapt(p *Policy, s State, e Evidence, now Time) State {
	s.Age = p.adaptAge(s.Age, e.Draw, now)
	s.Rates = p.adaptRates(s.Rates, e.Beats, now)
	s.Idles = p.adaptIdles(now)
	if s.Silence.Stage == Ignored { // by the policy before
		s.Silence = Silence{Edge: s.Silence.Edge}
	}
	return s
}
