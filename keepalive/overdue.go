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
	reason := d.doom
	if reason != 0 && d.dooms > now {
		reason = 0
	}
	d.mu.Unlock()
	if reason != 0 {
		if k.rescued(p, g, d, reason, ask) {
			return 0
		}
		return reason
	}
	if due[0] {
		reason = k.aged(p, g, d)
	}
	if reason == 0 && (due[1] || due[2]) {
		heard := ask()
		if due[1] {
			reason = k.judgeRates(p, d, heard)
		}
		if reason == 0 && due[2] {
			reason = k.judgeIdles(p, g, d, heard)
		}
	}
	if reason != 0 && p.DryRun {
		k.wouldClose(reason)
		reason = 0
	}
	if reason != 0 {
		if wait := k.turn(p, false); wait > 0 {
			d.condemn(reason, k.pool.TickIn(wait))
			return 0
		}
		return reason
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan()
	return 0
}

// condemn has a connection closed on a tick, whatever its peer says until then, apart
// from what rescued says.
func (d *details) condemn(reason Reason, tick uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.doom, d.dooms = reason, tick
	d.ages, d.rates, d.idles = never, never, never
	d.plan()
}

// rescued reports whether a connection that has waited for its turn to be closed has got
// meanwhile what it was to be closed for the lack of.
func (k *Keeper) rescued(p *policy, g *Guard, d *details, doom Reason, ask func() Heard) bool {
	rescued := false
	switch doom {
	case ReasonReadIdle:
		received := ask().received
		rescued = received >= 0 && received < p.ReadIdle
	case ReasonWriteIdle:
		sent := ask().sent
		rescued = sent >= 0 && sent < p.WriteIdle
	}
	if rescued {
		d.condemn(0, never)
		d.prepare(k, p, g)
	}
	return rescued
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
	d.windowBegan, d.rates = now, now+k.ticks(rateWindow)
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
func (k *Keeper) judgeIdles(p *policy, g *Guard, d *details, heard Heard) Reason {
	why, left := Reason(0), time.Duration(0)
	if d.holds.Load() > 0 {
		left = least(p.ReadIdle, p.WriteIdle)
	} else {
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
			if idle.age >= idle.limit && why == 0 {
				why = idle.reason
			}
			left = least(left, max(idle.limit-idle.age, k.pool.Tick()))
		}
	}
	if why != 0 {
		switch verdict := k.verdict(p, g, why); {
		case verdict == Close:
			return why
		case verdict == Probe:
			if failed := k.probe(p, g, p.ProbeCount); failed != 0 {
				return failed
			}
			left = least(p.ReadIdle, p.WriteIdle)
		case verdict == Ignore:
			left = least(p.ReadIdle, p.WriteIdle)
		default:
			left = time.Duration(verdict)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.idles = never; left > 0 {
		d.idles = k.pool.TickIn(left)
	}
	return 0
}
