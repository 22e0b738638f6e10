package rules

// Adapt returns the state of a connection after a change of the policy. A maximum age counts
// from then for a connection without one.
func Adapt(p *Policy, s State, e Evidence, now Time) State {
	s.Age, s.AgeOver = p.adaptAge(s.Age, e.Draw, now), false // and it is closed after a dry run
	s.Rates = p.adaptRates(s.Rates)
	s.Idles = Idles{}
	switch q := s.Silence; {
	case q.Stage == Ignored, q.Stage == Leaving && p.DryRun: // by the policy before
		s.Silence = Silence{Edge: q.Edge}
	case (q.Stage == Probing || q.Stage == Leaving && q.Why == NoAnswer) && q.Probes != lastProbe && p.ProbeCount == 0: // the timeout counts now
		s.Silence = Silence{Edge: q.Edge, Rounds: q.Rounds, Seen: q.Seen, Full: q.Full}
	case q.Stage == Leaving && !q.Slow: // the rate may be another one
		s.Silence.Until = now
	}
	if p.DryRun && s.Doom.End != AtOnce && s.Doom.End != Between {
		s.Doom = Doom{}
	}
	return s
}
