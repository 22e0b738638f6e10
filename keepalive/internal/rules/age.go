package rules

import "time"

// Age is the state of MaxAge.
type Age struct {
	From Time // when the age began, or 0 without a MaxAge
	Told Time // when the user was told of it, or that the connection is to leave sooner, or 0
}

// maxAge returns how old a connection may become: each has an age of its own.
func (p *Policy) maxAge(draw float64) time.Duration {
	return p.MaxAge - min(p.MaxAge, Saturated(float64(p.MaxAge)*p.MaxDraw*draw))
}

// ageNext returns when the age of a connection is reached, and then when its grace is
// over. Without a grace, an exchange under way is waited for.
func (d *decision) ageNext() Time {
	switch age := d.s.Age; {
	case d.p.MaxAge == 0 || d.s.AgeOver:
		return Never
	case age.Told != 0 && d.p.MaxGrace == 0:
		return max(age.Told, d.e.Exchange)
	case age.Told != 0:
		return age.Told.Add(d.p.MaxGrace)
	}
	return d.s.Age.From.Add(d.p.maxAge(d.e.Draw))
}

func (d *decision) ageAdapt() {
	d.s.AgeOver = false // it is closed after a dry run
	switch age := &d.s.Age; {
	case d.s.Doom.End == AfterGrace: // it is to leave at any age
	case d.p.MaxAge == 0:
		*age = Age{}
	case age.From == 0:
		age.From = max(d.now, 1) // since 0 means none
	case d.now < age.From.Add(d.p.maxAge(d.e.Draw)):
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
		return d.tell(MaxAge), true
	}
	if d.p.MaxGrace == 0 && d.isRequested(d.ageNext()) {
		return Outcome{}, false
	}
	d.s.AgeOver = true
	return d.doom(MaxAge, WhenAllowed)
}

// tell tells the user that the connection is to end.
func (d *decision) tell(why Reason) Outcome {
	d.s.Age.Told = max(d.now, 1) // since 0 means none
	return Outcome{Do: Tell, Why: why}
}
