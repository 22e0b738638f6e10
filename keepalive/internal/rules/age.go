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

// ageDeadline returns when the age of a connection is reached, and then when its grace is
// over. Without a grace, an exchange under way is waited for.
func (p *Policy) ageDeadline(s State, e *Evidence) Time {
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

func (p *Policy) adaptAge(age Age, draw float64, now Time) Age {
	switch {
	case p.MaxAge == 0:
		return Age{}
	case age.From == 0:
		return Age{From: now}
	case now < age.From.Add(p.maxAge(draw)):
		return Age{From: age.From} // it may become older than it was told
	}
	return age
}

// aged decides about a connection at its maximum age.
func (d *decision) aged() (Outcome, bool) {
	if d.now < d.p.ageDeadline(d.s, &d.e) || d.s.Doom.isSealed() {
		return Outcome{}, false
	}
	age := &d.s.Age
	if age.Told == 0 {
		age.Told = d.now
		if d.p.Tells || d.e.Exchange != 0 {
			return Outcome{Do: Tell}, true
		}
		if d.p.MaxGrace > 0 {
			return Outcome{}, false
		}
	}
	if d.p.MaxGrace == 0 {
		if out, wanted, yes := d.requested(d.p.ageDeadline(d.s, &d.e)); wanted || yes {
			return out, wanted
		}
	}
	d.s.AgeOver = true
	return d.doom(MaxAge, WhenAllowed)
}
