package keepalive

import (
	"cmp"
	"fmt"
)

// Update changes what the Keeper does, also with the connections that there are: each
// is looked at by the new config within the timeout that it had, and within a minute
// at most; there is no walk over all of them. For connections that had no MaxAge, it
// counts from then, and FirstMessage is for those that come. Tick (zero means
// that of before), Activity, Full, EvictMinIdle and Logger can't be changed, and MinBeat can't begin for connections that are open: it
// returns [ErrArgument] for the first four, and for all that New would return it for, and
// then nothing changes.
func (k *Keeper) Update(cfg Config) error {
	k.updating.Lock()
	defer k.updating.Unlock()
	old := k.policy.Load()
	cfg.Tick = cmp.Or(cfg.Tick, old.Tick)
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	switch {
	case cfg.Tick != old.Tick:
		return fmt.Errorf("%w: Tick %v, can't be changed from %v", ErrArgument, cfg.Tick, old.Tick)
	case cfg.Activity != old.Activity:
		return fmt.Errorf("%w: Activity %v, can't be changed from %v", ErrArgument, cfg.Activity, old.Activity)
	case cfg.Full != old.Full:
		return fmt.Errorf("%w: Full %v, can't be changed from %v", ErrArgument, cfg.Full, old.Full)
	case cfg.EvictMinIdle != old.EvictMinIdle:
		return fmt.Errorf("%w: EvictMinIdle %v, can't be changed from %v", ErrArgument, cfg.EvictMinIdle, old.EvictMinIdle)
	}
	p := newPolicy(cfg, old.generation+1, old.seed)
	if cfg.Advise && old.Advise && cfg.Timeout == old.Timeout {
		p.advisor = old.advisor
	}
	k.policy.Store(p)
	k.pressure.measured.Store(0) // by the new marks, at the next look
	k.pool.SetCapacity(cfg.MaxConns)
	return nil
}
