package keepalive

import "time"

// rateWindow is over how long MinBeat and MinRate are measured.
const rateWindow = 10 * time.Second

// overdue decides about what is due whether a connection is touched or not. It
// returns why it is to be closed, or 0.
func (k *Keeper) overdue(p *policy, g *Guard, d *details, ask func() Heard) Reason {
	now := k.pool.Now()
	d.mu.Lock()
	due := [...]bool{d.ages <= now, d.rates <= now, d.idles <= now}
	doom, doomed := d.doom, d.doomed
	d.mu.Unlock()
	if doomed {
		if k.rescued(p, g, d, doom, ask) {
			return 0
		}
		return doom
	}
	reason := Reason(0)
	if due[0] {
		reason = k.aged(p, g, d)
	}
	if reason == 0 && due[1] {
		heard := Heard{}
		if p.MinRate > 0 {
			heard = ask()
		}
		reason = k.judgeRates(p, d, heard)
	}
	if reason == 0 && due[2] {
		reason = k.judgeIdles(p, g, d, ask)
	}
	if reason != 0 && p.DryRun {
		k.wouldClose(reason)
		reason = 0
	}
	if reason != 0 && !k.queuesAnyway(p, g, d, reason) {
		return reason
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan()
	return 0
}

// condemn has a connection closed, now or when it is its turn, whatever its peer says
// until then, apart from what rescued says.
func (d *details) condemn(reason Reason, now bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.doom, d.doomed = reason, now
	d.ages, d.rates, d.idles = never, never, never
	d.plan()
}

// rescued reports whether a connection that has waited for its turn to be closed has got
// meanwhile what it was to be closed for the lack of.
func (k *Keeper) rescued(p *policy, g *Guard, d *details, doom Reason, ask func() Heard) bool {
	if doom != ReasonReadIdle && doom != ReasonWriteIdle {
		return false
	}
	if why, _ := k.idleFor(p, d, ask()); why == doom {
		return false
	}
	d.condemn(0, false)
	d.prepare(k, p, g)
	k.turns.giveBack(p.MaxClosePerSecond)
	return true
}

// aged tells a connection that is as old as it may become, and returns ReasonMaxAge
// when its grace is over.
func (k *Keeper) aged(p *policy, g *Guard, d *details) Reason {
	d.mu.Lock()
	tell := !d.aged
	d.aged = true
	if d.ages = never; tell && p.MaxAgeGrace > 0 {
		d.ages = k.pool.TickIn(p.MaxAgeGrace)
	}
	grace := d.ages != never
	d.mu.Unlock()
	if tell && p.OnMaxAge != nil {
		k.call("OnMaxAge", func() { p.OnMaxAge(g.conn) })
	}
	if grace {
		return 0
	}
	return ReasonMaxAge
}

// openWindow begins to count for MinBeat and MinRate. d.mu must be held.
func (d *details) openWindow(k *Keeper, now uint64) {
	d.windowBegan, d.rates = now, k.pool.TickIn(rateWindow)
	d.beats.Store(0)
}

// judgeRates looks at what came in the window that is over.
func (k *Keeper) judgeRates(p *policy, d *details, heard Heard) Reason {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := k.pool.Now()
	window := time.Duration(now-d.windowBegan) * k.pool.Tick()
	beats, bytes := d.beats.Load(), heard.bytes-d.bytes
	d.bytes = heard.bytes
	d.openWindow(k, now)

	// One more than fit into the window, since its ends cut two of them.
	strike(&d.tooOften, p.MinBeat > 0 && uint64(beats) > uint64(window/p.MinBeat)+1)
	strike(&d.tooSlow, p.MinRate > 0 && bytes > 0 && float64(bytes) < float64(p.MinRate)*window.Seconds())
	switch {
	case int(d.tooOften) >= p.Strikes:
		return ReasonTooMany
	case int(d.tooSlow) >= p.Strikes:
		return ReasonTooSlow
	}
	return 0
}

// strike counts how often in a row something was so.
func strike(n *uint8, so bool) {
	if *n++; !so {
		*n = 0
	}
}

// judgeIdles looks at when something was last read and written.
func (k *Keeper) judgeIdles(p *policy, g *Guard, d *details, ask func() Heard) Reason {
	why, left := k.idleFor(p, d, ask())
	verdict := Close
	if why != 0 && !d.spends(why) {
		return k.lookAgain(d, 0, left)
	}
	if why != 0 && p.OnIdle != nil {
		verdict = k.verdict(p, g, why)
		if again, _ := k.idleFor(p, d, ask()); again != why {
			return k.lookAgain(d, 0, left) // it was about a silence that has ended
		}
	}
	switch {
	case why == 0:
		d.spends(0)
	case verdict > 0:
		d.spends(0)
		why, left = 0, time.Duration(verdict)
	case verdict == Ignore:
		why = 0
	case verdict == Probe:
		d.spends(0)
		if why = 0; !k.probe(p, g, lastProbe) {
			why = ReasonNoAnswer
		}
	}
	return k.lookAgain(d, why, left)
}

// spends notes that a read or write silence has come to its end (or, with 0, that there
// is none, or a new one), and reports whether that is new.
func (d *details) spends(why Reason) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.spent
	d.spent = why != 0
	return !before
}

// lookAgain has the read and write silences of a connection judged again after a time.
func (k *Keeper) lookAgain(d *details, why Reason, after time.Duration) Reason {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.idles = never; after > 0 {
		d.idles = k.pool.TickIn(after)
	}
	return why
}

// idleFor returns why a connection is idle by ReadIdle or WriteIdle, if it is, and when
// to look again.
func (k *Keeper) idleFor(p *policy, d *details, heard Heard) (why Reason, left time.Duration) {
	period := least(p.ReadIdle, p.WriteIdle)
	if d.holds.Load() > 0 {
		return 0, period
	}
	d.mu.Lock()
	released := d.released
	d.mu.Unlock()
	for _, idle := range [...]struct {
		limit, age time.Duration
		reason     Reason
	}{
		{p.ReadIdle, heard.received, ReasonReadIdle},
		{p.WriteIdle, heard.sent, ReasonWriteIdle},
	} {
		if idle.limit == 0 || idle.age < 0 {
			continue
		}
		if !released.IsZero() {
			idle.age = min(idle.age, k.counted(time.Since(released)))
		}
		if idle.age < idle.limit {
			left = least(left, idle.limit-idle.age)
		} else if left = least(left, period); why == 0 {
			why = idle.reason
		}
	}
	return why, left
}
