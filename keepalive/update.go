package keepalive

import (
	"cmp"
	"slices"
)

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
	p := newPolicy(cfg, old.generation+1, old.seed, old.sleep)
	if cfg.Advise && old.Advise && cfg.Timeout == old.Timeout {
		p.advisor = old.advisor
	}
	if slices.EqualFunc(cfg.Checks, old.Config.Checks, func(a, b Check) bool { return a.Name == b.Name && a.Every == b.Every }) {
		p.checks = old.checks
	}
	k.policy.Store(p)
	k.gauge.next.Store(0) // by the new bounds, at the next look
	k.pool.SetCapacity(cfg.Room.MaxConns)
	k.pool.SetMinIdle(cfg.Room.evictIdle(cfg.Timeout)) // its default follows Timeout
	if cfg.Closing.MaxPerSecond != old.Closing.MaxPerSecond {
		for g := range k.Guards() {
			g.tryAgain()
		}
	}
	return nil
}
