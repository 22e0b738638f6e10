package rules

// Deadline returns when a connection will be closed at the earliest if nothing more is heard
// of its peer, and for what reason, by what is known at the moment. Reason 0 means no end.
// Only the socket knows of ReadIdle and WriteIdle, and they don't count here.
func Deadline(p *Policy, s State, e Evidence, now Time) (Time, Reason) {
	if s.Doom.isSealed() {
		return now, s.Doom.Why
	}
	d := begin(p, s, &e, now)
	end, why := d.deadline()
	switch q := d.s.Silence; {
	case s.Holds > 0, q.Stage == Ignored:
		end, why = Never, 0
	case why == NoAnswer && (q.Stage == Listening || q.Stage == Probing) && int(q.Probes) < p.ProbeCount: // and probes are to come
		left := p.ProbeCount - int(q.Probes)
		end = end.Add(Saturated(float64(left) * float64(d.t.answer))).Add(d.t.early)
	}
	if age := d.ageNext(); age < Never {
		if s.Age.Told == 0 {
			age = age.Add(p.MaxGrace)
		}
		if age <= end { // it comes first
			end, why = age, MaxAge
		}
	}
	doom := d.doomNext()
	if s.Doom.End == AfterGrace && s.Age.Told == 0 {
		doom = now.Add(p.MaxGrace)
	}
	if doom < Never && doom <= end {
		end, why = max(now, doom), s.Doom.Why
	}
	return end, why
}
