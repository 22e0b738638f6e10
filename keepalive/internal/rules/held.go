package rules

// held decides about a connection while this program is busy with it. Its silence does not
// count, unless the peer takes nothing of what this program has written: then the silence ends
// a timeout after that was first seen.
func (d *decision) held(due Time) Outcome {
	if out, wanted := d.look(due); wanted {
		return out
	}
	k, q := d.socket, d.s.Silence
	until := d.now.Add(d.p.timeout(d.s))
	switch {
	case !k.Pending:
		d.s.Silence.Stuck = false
		return Outcome{Do: Wait, Until: until}
	case !q.Stuck, q.Seen.Signs != k.Acked: // it is news, or the peer has taken something since
		d.enter(Silence{Stage: Taking, Why: Idle, Until: until})
		d.s.Silence.Seen, d.s.Silence.Stuck = Seen{Signs: k.Acked}, true
		return Outcome{Do: Wait, Until: until}
	case q.Stage == Ignored:
		return d.ignore(q.Why)
	case q.Stage == Leaving:
		return d.close(q.Why)
	}
	return d.over(q.Why)
}
