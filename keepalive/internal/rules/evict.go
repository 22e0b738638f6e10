package rules

// evicted decides about the idlest connection, which has to make room.
func (d *decision) evicted() (Outcome, bool) {
	switch {
	case !d.s.Evicted:
		return Outcome{}, false
	case !d.e.Due, d.e.Touched.Add(d.p.EvictIdle) > d.now: // touched meanwhile; it may be due again, for something else
		d.s.Evicted = false
		return Outcome{}, false
	case d.s.Holds > 0: // and not the idlest any more
		d.s.Evicted = false
		return d.hear(d.now), true
	}
	if out, wanted := d.look(d.e.Touched.Add(d.p.EvictIdle)); wanted {
		return out, true
	}
	d.s.Evicted = false
	k := d.socket
	switch {
	case d.e.Life != Touches && k.Heard != Unknown && k.Heard.Add(d.p.EvictIdle) > k.Asked:
		return d.hear(k.Heard), true
	case k.Unread > 0: // it is read first
		return Outcome{}, false
	case d.p.DryRun:
		d.out.Would[Evicted] = true
		return Outcome{}, false
	}
	return Outcome{Do: Close, Why: Evicted}, true
}
