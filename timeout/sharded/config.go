package sharded

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Config is what New and Open can be told. The zero value is useful.
type Config struct {
	// Patience is how long a shard may take for at most a thousand tasks before it is taken
	// for away: for so long it can hold up the others, once. Zero means 5s; less than 10ms is
	// an error.
	Patience time.Duration

	// Logger gets a line when a shard goes away and when it comes back. Nil means slog's
	// default.
	Logger *slog.Logger
}

const minPatience = 10 * time.Millisecond

func (c Config) withDefaults() Config {
	if c.Patience == 0 {
		c.Patience = 5 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) check(shards int) error {
	if c.Patience < minPatience {
		return fmt.Errorf("%w: Patience %v, must be at least %v", timeout.ErrArgument, c.Patience, minPatience)
	}
	if shards < 1 || shards > timeout.MaxSlots {
		return fmt.Errorf("%w: %d shards, must be 1 to %d", timeout.ErrArgument, shards, timeout.MaxSlots)
	}
	return nil
}

// New returns an engine over shards that are open, and that are closed with it. They must have
// nothing in them that was not set by such an engine with the same list: the error wraps
// timeout.ErrConflict where they were used alone, in another order, or with others. A shard
// that does not answer is taken in when it does; but the first time all of them must. On an
// error the shards stay open.
//
// The engine is a timeout.Log, and a timeout.Waker and a timeout.Truth where all shards are.
func New(ctx context.Context, shards []timeout.Engine, cfg Config) (timeout.Engine, error) {
	kind := kind{waker: true, truth: true}
	openers := make([]func(context.Context) (timeout.Engine, error), len(shards))
	for place, shard := range shards {
		if shard == nil {
			return nil, fmt.Errorf("%w: shard %d is nil, must be an engine", timeout.ErrArgument, place)
		}
		kind = kind.and(shard)
		openers[place] = func(context.Context) (timeout.Engine, error) { return shard, nil }
	}
	return start(ctx, openers, kind, false, cfg)
}

// Open is New for shards that it opens, each as soon as that can be done: by functions that
// return engines, which may be called again and again until they do.
func Open[E timeout.Engine](ctx context.Context, shards []func(context.Context) (E, error), cfg Config) (timeout.Engine, error) {
	openers := make([]func(context.Context) (timeout.Engine, error), len(shards))
	for place, open := range shards {
		openers[place] = func(ctx context.Context) (timeout.Engine, error) {
			engine, err := open(ctx)
			if err != nil {
				return nil, err
			}
			return engine, nil
		}
	}
	var one E // of which the type says enough, where it is no interface
	return start(ctx, openers, kind{true, true}.and(any(one)), true, cfg)
}

// kind is what an engine is besides.
type kind struct{ waker, truth bool }

func (k kind) and(engine any) kind {
	_, waker := engine.(timeout.Waker)
	_, truth := engine.(timeout.Truth)
	return kind{k.waker && waker, k.truth && truth}
}

// as returns the engine with the methods that make it what it is.
func (k kind) as(e *core) timeout.Engine {
	switch {
	case k.waker && k.truth:
		return struct {
			*core
			waker
			truth
		}{e, waker{e}, truth{e}}
	case k.waker:
		return struct {
			*core
			waker
		}{e, waker{e}}
	case k.truth:
		return struct {
			*core
			truth
		}{e, truth{e}}
	default:
		return e
	}
}
