package server

import (
	"fmt"
	"slices"
)

// Update changes the config, also for open connections: see [keepalive.Keeper.Update] for how
// soon. Addr, Listener, Proxies, Loops, Tick, Logger, Room.Full and Room.MinIdle can't be changed. For
// the first six, zero means the value in force. For all others it means the same as to New, so
// begin with the result of Config. Update returns [ErrArgument], wrapped with the fixed field or
// the impossible value, and [ErrClosed] if the server has ended. Then nothing changes.
func (s *Server) Update(cfg Config) error {
	s.updating.Lock()
	defer s.updating.Unlock()
	if s.isDone() {
		return ErrClosed
	}
	old := s.cfg.Load()
	setDefault(&cfg.Addr, old.Addr)
	setDefault(&cfg.Listener, old.Listener)
	if cfg.Proxies.IsZero() {
		cfg.Proxies = old.Proxies
	}
	setDefault(&cfg.Loops, old.Loops)
	setDefault(&cfg.Tick, s.keeper.Config().Tick)
	setDefault(&cfg.Logger, old.Logger)
	cfg, err := cfg.withDefaults(s.open)
	if err != nil {
		return err
	}
	switch {
	case cfg.Addr != old.Addr:
		return fmt.Errorf("%w: Addr %q, can't be changed from %q", ErrArgument, cfg.Addr, old.Addr)
	case cfg.Listener != old.Listener:
		return fmt.Errorf("%w: Listener, can't be changed", ErrArgument)
	case cfg.Proxies.Optional != old.Proxies.Optional || !slices.Equal(cfg.Proxies.Trusted, old.Proxies.Trusted):
		return fmt.Errorf("%w: Proxies %v, can't be changed from %v", ErrArgument, cfg.Proxies, old.Proxies)
	case cfg.Loops != old.Loops:
		return fmt.Errorf("%w: Loops %d, can't be changed from %d", ErrArgument, cfg.Loops, old.Loops)
	case cfg.Logger != old.Logger:
		return fmt.Errorf("%w: Logger, can't be changed", ErrArgument)
	}
	if err := s.keeper.Update(cfg.keeper()); err != nil {
		return fmt.Errorf("%w: %w", ErrArgument, err)
	}
	s.putInForce(&cfg)
	return nil
}
