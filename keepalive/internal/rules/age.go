package rules

import "time"

// Age is the state of MaxAge.
type Age struct {
	From Time // when the age began, or 0 without a MaxAge
	Told Time // when the user was told, or 0
}

// maxAge returns how old a connection may become: each has an age of its own.
func (p *Policy) maxAge(draw float64) time.Duration {
	return p.MaxAge - min(p.MaxAge, Saturated(float64(p.MaxAge)*p.MaxDraw*draw))
}

// ageNext returns when the age of a connection is reached, and then when its grace is
// over. Without a grace, an exchange under way is waited for.
func ageNext(p *Policy, s *State, e *Evidence) Time {
	switch {
	case p.MaxAge == 0 || s.AgeOver:
		return Never
	case s.Age.Told != 0 && p.MaxGrace == 0:
		return max(s.Age.Told, e.Exchange)
	case s.Age.Told != 0:
		return s.Age.Told.Add(p.MaxGrace)
	}
	return s.Age.From.Add(p.maxAge(e.Draw))
}

func ageAdapt(p *Policy, s *State, e *Evidence, now Time) {
	s.AgeOver = false // it is closed after a dry run
	switch age := &s.Age; {
	case p.MaxAge == 0:
		*age = Age{}
	case age.From == 0:
		age.From = max(now, 1) // since 0 means none
	case now < age.From.Add(p.maxAge(e.Draw)):
		age.Told = 0 // it may become older than it was told
	}
}

// aged decides about a connection at its maximum age.
func (d *decision) aged() (Outcome, bool) {
	age := &d.s.Age
	switch {
	case d.p.DryRun: // the connection stays, so nobody is told
		d.s.AgeOver = true
		return d.doom(MaxAge, WhenAllowed)
	case age.Told == 0:
		age.Told = d.now
		return Outcome{Do: Tell}, true
	}
	if d.p.MaxGrace == 0 && d.isRequested(ageNext(d.p, &d.s, d.e)) {
		return Outcome{}, false
	}
	d.s.AgeOver = true
	return d.doom(MaxAge, WhenAllowed)
}
