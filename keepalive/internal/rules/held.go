package rules

// held decides about a connection while this program is busy with it. Its silence does not
// count, unless the peer takes nothing of what this program has written: then the silence ends
// a timeout after that was first seen.
func (d *decision) held() Outcome {
	if out, wanted := d.look(); wanted {
		return out
	}
	k, q := d.socket, d.s.Silence
	until := d.now.Add(d.p.timeout(d.s))
	switch {
	case !k.Pending && q.Stage == Stuck:
		d.enter(Silence{})
		return Outcome{Do: Wait, Until: until}
	case !k.Pending:
		return Outcome{Do: Wait, Until: until}
	case q.Stage < Stuck, q.Seen.Signs != k.Acked: // or it has taken something since
		d.enter(Silence{Stage: Stuck, Why: Idle, Until: until})
		d.s.Silence.Seen = Seen{Signs: k.Acked}
		return Outcome{Do: Wait, Until: until}
	case q.Stage == Ignored:
		return d.ignore(Idle)
	case q.Stage == Waiting:
		return d.close(Idle)
	}
	return d.over(Idle)
}
