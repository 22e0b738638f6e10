package main

// fleetReport adds up what clients and nodes have seen, when the clients count no more.
func (c *crew) fleetReport(res *result) *fleetReport {
	l := &ledger{end: res.end, longest: res.sinceOpen().max(), online: map[sessionEpoch]bool{}, failed: map[int32]bool{}}
	t := tally{byes: map[string]int{}, notBack: int(c.fleet.away.Load())}
	for _, w := range c.workers {
		l.registrations = append(l.registrations, w.clients.registrations...)
		for i, m := range w.clients.members {
			if m.failed {
				l.failed[int32(w.first+i)] = true
			}
		}
		t.failed += w.clients.refused
		if t.failure == nil {
			t.failure = w.clients.refusal
		}
		for reason, n := range w.clients.byes {
			t.byes[reason] += n
		}
	}
	for _, n := range c.fleet.all() {
		state, ended := c.fleet.fate(n)
		l.add(n, state, ended, c.start)
	}
	for _, r := range l.registrations {
		if r.cut && l.diedUnder(r) {
			res.wronglyClosed-- // by a node that was about to be known to be dead
		}
	}
	return newFleetReport(c.cfg, c.fleet, l, t)
}
