package rules

// Deadline returns when a connection will be closed at the earliest if nothing more is heard
// of its peer, and for what reason, by what is known at the moment. Reason 0 means no end.
// Only the socket knows of ReadIdle and WriteIdle, and they don't count here.
func Deadline(p *Policy, s State, e Evidence, now Time) (Time, Reason) {
	if s.Doom.isSealed() {
		return now, s.Doom.Why
	}
	if !e.Quiet {
		s.Silence = Silence{}
	}
	d := decision{p: p, s: s, e: &e, now: now}
	end, why := Never, Reason(0)
	if s.Holds == 0 {
		end, why = d.silenceDeadline()
	}
	if age := ageNext(p, &s, &e); age < Never {
		if s.Age.Told == 0 {
			age = age.Add(p.MaxGrace)
		}
		if age <= end { // it comes first
			end, why = age, MaxAge
		}
	}
	if s.Doom.Why != 0 && e.Exchange < Never && e.Exchange <= end {
		end, why = max(now, e.Exchange), s.Doom.Why
	}
	return end, why
}

// silenceDeadline returns when a silence is over, with all probes still to come.
func (d *decision) silenceDeadline() (Time, Reason) {
	end, why := d.deadline()
	left := d.p.ProbeCount
	switch d.s.Silence.Stage {
	case Ignored:
		return Never, 0
	case Listening:
		if why != NoAnswer {
			return end, why
		}
	case Probing:
		left -= int(d.s.Silence.Probes)
	default:
		return end, why
	}
	if left <= 0 {
		return end, why
	}
	timeout := d.p.timeout(d.s)
	answers := Saturated(float64(left) * float64(d.p.scaled(d.p.ProbeTimeout, timeout)))
	return end.Add(sum(answers, d.p.probedEarly(timeout, d.e.Draw))), why
}
