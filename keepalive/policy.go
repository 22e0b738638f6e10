package keepalive

import (
	"hash/maphash"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// policy is a Config and what follows from it. It never changes: Update puts another one in
// its place.
type policy struct {
	Config
	rules      rules.Policy
	upgraded   rules.Policy // of upgraded connections: with their own probes
	generation uint32
	checks     uint32   // the first generation with these Checks
	advisor    *advisor // nil unless Advise
	seed       maphash.Seed
	sleep      time.Duration // how long the wheel's hand may sleep
}

func newPolicy(cfg Config, generation uint32, seed maphash.Seed, sleep time.Duration) *policy {
	p := &policy{Config: cfg, generation: generation, checks: generation, seed: seed, sleep: sleep}
	p.rules = rules.Policy{
		Tick:      cfg.Tick,
		Sleep:     sleep,
		Timeout:   cfg.Timeout,
		First:     cfg.FirstMessage,
		ReadIdle:  cfg.ReadIdle,
		WriteIdle: cfg.WriteIdle,
		MaxAge:    cfg.Age.Max,
		MaxGrace:  cfg.Age.Grace,
		MaxDraw:   max(cfg.Age.Jitter, 0),
		MinBeat:   cfg.Rate.MinBeat,
		MinBytes:  cfg.Rate.MinBytes,
		Strikes:   cfg.Rate.Strikes,
		EvictIdle: cfg.Room.evictIdle(cfg.Timeout),
		Pressed:   cfg.Room.Pressure.Timeout,
		Asks:      cfg.OnIdle != nil,
		Tells:     cfg.Age.OnMax != nil,
		Paced:     cfg.Closing.MaxPerSecond > 0,
		DryRun:    cfg.Closing.DryRun,
	}
	p.upgraded = p.rules
	p.upgraded.ProbeAfter, p.upgraded.ProbeTimeout, p.upgraded.ProbeCount = cfg.Probe.times(cfg.Timeout, cfg.Tick)
	if cfg.Probe.Send != nil {
		p.rules = p.upgraded
	}
	if cfg.Advise {
		p.advisor = new(advisor)
	}
	return p
}

// rulesOf returns the rules for a connection.
func (p *policy) rulesOf(g *Guard) *rules.Policy {
	if g.isUpgraded() {
		return &p.upgraded
	}
	return &p.rules
}

// draw returns a number from 0 to 1, drawn once per connection: the same each time, and another
// one for another connection.
func (p *policy) draw(g *Guard) float64 {
	return float64(maphash.Comparable(p.seed, g)>>11) / (1 << 53)
}
