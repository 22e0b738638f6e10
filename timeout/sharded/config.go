package sharded

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Config configures New and Open. The zero value is useful.
type Config struct {
	// CallTimeout is the time limit of a call of a shard with at most a thousand tasks. A slower
	// shard counts as away. It can hold up a call for several shards for CallTimeout, once. Zero
	// means 5s; less than 10ms is an error.
	CallTimeout time.Duration

	// Logger gets a line when a shard goes away and when it comes back. Nil means slog's
	// default.
	Logger *slog.Logger
}

const minCallTimeout = 10 * time.Millisecond

func (c Config) withDefaults() Config {
	c.CallTimeout = cmp.Or(c.CallTimeout, 5*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

func (c Config) check(shards int) error {
	if c.CallTimeout < minCallTimeout {
		return fmt.Errorf("%w: CallTimeout %v, must be at least %v", engine.ErrArgument, c.CallTimeout, minCallTimeout)
	}
	if shards < 1 || shards > engine.MaxSlots {
		return fmt.Errorf("%w: %d shards, must be 1 to %d", engine.ErrArgument, shards, engine.MaxSlots)
	}
	return nil
}

// New returns an engine over open shards. Close of the engine closes them. The shards must be
// empty, or set only by such an engine with the same list. If they were used alone, in another
// order, or with others, the error wraps engine.ErrConflict. The first time, all shards must
// answer. Later, a silent shard joins when it answers. On an error the shards stay open.
//
// The engine implements engine.Log, engine.Parted and engine.Peeker; Peek returns
// engine.ErrUnsupported unless all shards implement engine.Peeker. If all shards implement
// engine.Waker, so does the engine. An index stands in front of each shard, not in front of the engine.
func New(ctx context.Context, shards []engine.Engine, cfg Config) (engine.Engine, error) {
	wakers := true
	openers := make([]func(context.Context) (engine.Engine, error), len(shards))
	for index, shard := range shards {
		if shard == nil {
			return nil, fmt.Errorf("%w: shard %d is nil, must be an engine", engine.ErrArgument, index)
		}
		wakers = wakers && isWaker(shard)
		openers[index] = func(context.Context) (engine.Engine, error) { return shard, nil }
	}
	return start(ctx, openers, wakers, false, cfg)
}

// Open is like New, but opens the shards. It calls each function again and again until the
// function returns an engine.
func Open[E engine.Engine](ctx context.Context, shards []func(context.Context) (E, error), cfg Config) (engine.Engine, error) {
	openers := make([]func(context.Context) (engine.Engine, error), len(shards))
	for index, open := range shards {
		openers[index] = func(ctx context.Context) (engine.Engine, error) {
			e, err := open(ctx)
			if err != nil {
				return nil, err
			}
			return e, nil
		}
	}
	var one E // its type is enough, unless E is an interface
	return start(ctx, openers, isWaker(one), true, cfg)
}

func isWaker(e any) bool {
	_, is := e.(engine.Waker)
	return is
}
