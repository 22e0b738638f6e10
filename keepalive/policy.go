package keepalive

import (
	"cmp"
	"hash/maphash"
	"slices"
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
}

// newPolicy returns a policy for a wheel whose hand may sleep for so long.
func newPolicy(cfg Config, generation uint32, sleep time.Duration) *policy {
	p := &policy{Config: cfg, generation: generation, checks: generation}
	p.rules = rules.Policy{
		Tick:       cfg.Tick,
		Blur:       max(cfg.Tick, sleep),
		Timeout:    cfg.Timeout,
		First:      cfg.FirstMessage,
		ReadIdle:   cfg.ReadIdle,
		WriteIdle:  cfg.WriteIdle,
		WriteStall: cfg.WriteStall,
		MaxUnsent:  cfg.MaxUnsent,
		MaxAge:     cfg.Age.Max,
		MaxGrace:   cfg.Age.Grace,
		MaxDraw:    max(cfg.Age.Jitter, 0),
		MinBeat:    cfg.Rate.MinBeat,
		MinBytes:   cfg.Rate.MinBytes,
		Strikes:    cfg.Rate.Strikes,
		EvictIdle:  cfg.Room.evictIdle(cfg.Timeout),
		Pressed:    cfg.Room.Pressure.Timeout,
		Asks:       cfg.OnIdle != nil,
		Paced:      cfg.Closing.MaxPerSecond > 0,
		DryRun:     cfg.Closing.DryRun,
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
func (g *Guard) draw() float64 {
	return float64(maphash.Comparable(g.keeper.seed, g)>>11) / (1 << 53)
}

// Update puts another config in force, also for open connections. Each of them is looked at by
// the new config within its old timeout, and within a minute; there is no walk over all of
// them, unless Closing.MaxPerSecond changes: connections that wait for it try again at once. An
// age counts from the Update if the connection had no maximum before. FirstMessage is for
// connections to come.
//
// The Keeper sleeps for as long as the first Timeout allows, see Config.Tick.
//
// Tick, Activity, Room.Full, Room.MinIdle and Logger can't be changed, and Rate.MinBeat can't
// begin for open connections. A zero Tick and a nil Logger mean those in force. Update returns
// [ErrArgument] for a change of the five, and for everything refused by New. Then nothing
// changes.
func (k *Keeper) Update(cfg Config) error {
	k.updating.Lock()
	defer k.updating.Unlock()
	old := k.policy.Load()
	cfg.Tick = cmp.Or(cfg.Tick, old.Tick)
	cfg.Logger = cmp.Or(cfg.Logger, old.Logger)
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	switch {
	case cfg.Tick != old.Tick:
		return wrong("Tick %v, can't be changed from %v", cfg.Tick, old.Tick)
	case cfg.Activity != old.Activity:
		return wrong("Activity %v, can't be changed from %v", cfg.Activity, old.Activity)
	case cfg.Room.Full != old.Room.Full:
		return wrong("Room.Full %v, can't be changed from %v", cfg.Room.Full, old.Room.Full)
	case cfg.Room.MinIdle != old.Room.MinIdle:
		return wrong("Room.MinIdle %v, can't be changed from %v", cfg.Room.MinIdle, old.Room.MinIdle)
	case cfg.Logger != old.Logger:
		return wrong("Logger, can't be changed")
	}
	if err := nameChecks(cfg.Checks); err != nil {
		return err
	}
	p := newPolicy(cfg, old.generation+1, k.sleep)
	if cfg.Advise && old.Advise && cfg.Timeout == old.Timeout {
		p.advisor = old.advisor
	}
	if slices.EqualFunc(cfg.Checks, old.Checks, func(a, b Check) bool { return a.Name == b.Name && a.Every == b.Every }) {
		p.checks = old.checks
	}
	k.policy.Store(p)
	k.gauge.next.Store(0) // by the new bounds, at the next look
	// The default of MinIdle follows Timeout.
	k.pool.Resize(cfg.Room.MaxConns, cfg.Room.evictIdle(cfg.Timeout))
	if cfg.Closing.MaxPerSecond != old.Closing.MaxPerSecond {
		for g := range k.Guards() {
			g.tryAgain()
		}
	}
	return nil
}
