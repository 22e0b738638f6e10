package keepalive

import (
	"hash/maphash"
	"math"
	"time"
)

// maxHop bounds how long after a touch a connection is looked at first: so a change
// of the policy reaches each within that, see Keeper.Update.
const maxHop = time.Minute

// policy is a Config and what follows from it. It never changes: Update puts
// another one in its place.
type policy struct {
	Config
	generation uint32
	detailed   bool     // each connection has details
	advisor    *advisor // nil unless Advise
	seed       maphash.Seed
}

func newPolicy(cfg Config, generation uint32, seed maphash.Seed) *policy {
	p := &policy{Config: cfg, generation: generation, seed: seed}
	p.detailed = cfg.MaxAge > 0 || cfg.MinBeat > 0 || cfg.MinRate > 0 || cfg.ReadIdle > 0 || cfg.WriteIdle > 0 ||
		cfg.MaxPerKey > 0 || cfg.Advise
	if cfg.Advise {
		p.advisor = new(advisor)
	}
	return p
}

// hop returns how long after a touch a connection with that timeout is looked at
// first, in whole ticks: the first time at which something may be due.
func (p *policy) hop(g *Guard, timeout time.Duration) time.Duration {
	hop := min(timeout, maxHop)
	if p.Probe != nil {
		hop = min(hop, p.probeAfter(g, timeout))
	}
	if p.PressureTimeout > 0 {
		hop = min(hop, p.scaled(p.PressureTimeout, timeout))
	}
	if p.Advise {
		hop = min(hop, timeout/8)
	}
	hop = p.wholeTicks(hop)
	if p.FirstMessage > 0 && hop > p.Tick && firstMark(hop, p.Tick) == firstMark(p.wholeTicks(p.FirstMessage), p.Tick) {
		hop -= p.Tick // so that a touch can be told from none
	}
	return hop
}

// wholeTicks returns a duration rounded up to ticks, at least one.
func (p *policy) wholeTicks(d time.Duration) time.Duration {
	over := d % p.Tick
	if d <= 0 || over > 0 {
		d = sum(d-over, p.Tick)
	}
	return d
}

// scaled returns what a duration of the policy is for a connection that has another
// timeout than the policy says.
func (p *policy) scaled(d, timeout time.Duration) time.Duration {
	if timeout == p.Timeout {
		return d
	}
	return saturated(float64(d) * (float64(timeout) / float64(p.Timeout)))
}

// probeAfter returns when a connection is probed: it has a moment of its own in the
// last quarter of ProbeAfter.
func (p *policy) probeAfter(g *Guard, timeout time.Duration) time.Duration {
	return p.scaled(p.ProbeAfter, timeout) - p.probedEarly(g, timeout)
}

// probedEarly returns how much sooner than ProbeAfter that is. By so much longer the last
// answer is waited for: nobody is closed sooner for it.
func (p *policy) probedEarly(g *Guard, timeout time.Duration) time.Duration {
	return time.Duration(float64(p.scaled(p.ProbeAfter, timeout)/4) * p.draw(g))
}

// maxAge returns how old a connection may become.
func (p *policy) maxAge(g *Guard) time.Duration {
	return p.MaxAge - min(p.MaxAge, saturated(float64(p.MaxAge)*max(p.MaxAgeJitter, 0)*p.draw(g)))
}

// draw returns a number from 0 to 1 that is drawn once per connection: the same
// each time, and another one for another connection.
func (p *policy) draw(g *Guard) float64 {
	return float64(maphash.Comparable(p.seed, g)>>11) / (1 << 53)
}

// reduced returns what a timeout becomes under pressure, of which 0 is none and 1 is
// all.
func (p *policy) reduced(timeout time.Duration, pressure float64) time.Duration {
	least := p.scaled(p.PressureTimeout, timeout)
	return timeout - min(timeout, saturated(float64(timeout-least)*pressure))
}

// clamped returns a timeout of a connection's own within the bounds of the policy.
func (p *policy) clamped(d time.Duration) time.Duration {
	d = max(d, p.MinTimeout, p.Tick)
	if p.MaxTimeout > 0 {
		d = min(d, p.MaxTimeout)
	}
	return d
}

// saturated returns a duration of so many nanoseconds, or the longest that there is.
func saturated(d float64) time.Duration {
	if d >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(d)
}
