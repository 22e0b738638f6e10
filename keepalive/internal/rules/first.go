package rules

import "time"

// FirstLook returns how long after its opening a connection is decided about first, with First. hop
// is its Hop.
func (p *Policy) FirstLook(life Life, hop time.Duration) time.Duration {
	if life.Untold() { // nobody may touch for the first sign of life, and the timeout begins with it
		return min(p.First, hop)
	}
	return p.First
}

// Open returns the state of a new connection.
func Open(p *Policy, e Evidence, now Time) State {
	s := Adapt(p, State{}, e, now)
	if p.First > 0 {
		s.Silence = Silence{Stage: Opened, Why: FirstMessage, Until: e.Born.Add(p.First)}
	}
	if p.MaxAge > 0 {
		s.Age.From = max(e.Born, 1) // since 0 means none
	}
	if p.MinBeat > 0 || p.MinBytes > 0 {
		s.Rates = Rates{Began: e.Born, Next: e.Born.Add(window), Lost: e.Lost}
	}
	if period := p.idlePeriod(); period > 0 {
		s.Idles.At = e.Born.Add(period)
	}
	return s
}
