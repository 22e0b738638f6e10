package sharded

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// chunk is how many tasks are in a call of a shard, so that Patience is about a known amount of
// work.
const chunk = 1000

// core is the engine, without what only some are.
type core struct {
	cfg    Config
	shards []*shard
	own    bool // the shards were opened here
	turn   atomic.Uint32
	closed atomic.Bool
	life   context.Context // ends with the engine
	end    context.CancelFunc
	guards sync.WaitGroup

	mu     sync.Mutex                     // guards what follows
	list   string                         // which list of shards this is, see mark
	slots  map[string]int                 // of the topics, as the first shard said last
	fenced map[string]raisedFence         // by topic
	owed   []map[string][]timeout.Outcome // by place and topic: see Expire
}

var (
	_ timeout.Engine = (*core)(nil)
	_ timeout.Log    = (*core)(nil)
	_ timeout.Laned  = (*core)(nil)
)

func start(ctx context.Context, openers []func(context.Context) (timeout.Engine, error), kind kind, own bool, cfg Config) (timeout.Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(len(openers)); err != nil {
		return nil, err
	}
	e := &core{cfg: cfg, own: own, slots: make(map[string]int), fenced: make(map[string]raisedFence), owed: make([]map[string][]timeout.Outcome, len(openers))}
	e.life, e.end = context.WithCancel(context.Background())
	for place, open := range openers {
		e.owed[place] = make(map[string][]timeout.Outcome)
		e.shards = append(e.shards, newShard(place, open))
	}
	if err := e.found(ctx); err != nil {
		e.end()
		if own {
			err = errors.Join(err, e.closeShards())
		}
		return nil, err
	}
	for _, s := range e.shards {
		e.guards.Go(func() { e.guard(s) })
	}
	return kind.as(e), nil
}

// Lane is timeout.Laned's: the shard of a key, and the part of that if it has several.
func (e *core) Lane(key timeout.Key) int {
	place := Place(key, len(e.shards))
	inner := 0
	if laned, ok := e.shards[place].known().(timeout.Laned); ok {
		inner = laned.Lane(key)
	}
	return place + inner*len(e.shards)
}

// enter refuses a call of an engine that is closed, or whose context has ended.
func (e *core) enter(ctx context.Context) error {
	if e.closed.Load() {
		return timeout.ErrClosed
	}
	return ctx.Err()
}

// together calls do for some shards at the same time, and returns what each says, by place.
func (e *core) together(which func(place int) bool, do func(s *shard) error) []error {
	errs := make([]error, len(e.shards))
	var running sync.WaitGroup
	for place, s := range e.shards {
		if which == nil || which(place) {
			running.Go(func() { errs[place] = do(s) })
		}
	}
	running.Wait()
	return errs
}

// Now is timeout.Engine's: the clock that is ahead of the others, of those that answer.
func (e *core) Now(ctx context.Context) (time.Time, error) {
	if err := e.enter(ctx); err != nil {
		return time.Time{}, err
	}
	clocks := make([]time.Time, len(e.shards))
	errs := e.together(nil, func(s *shard) error {
		return e.call(ctx, s, func(ctx context.Context, engine timeout.Engine) (err error) {
			clocks[s.place], err = engine.Now(ctx)
			return err
		})
	})
	var last time.Time
	for _, clock := range clocks {
		if clock.After(last) {
			last = clock
		}
	}
	if last.IsZero() {
		return last, errors.Join(errs...)
	}
	return last, nil
}

// Beat is timeout.Members', of the first shard.
func (e *core) Beat(ctx context.Context, node timeout.Node, ttl time.Duration) (view timeout.View, err error) {
	if err := e.enter(ctx); err != nil {
		return view, err
	}
	err = e.call(ctx, e.shards[0], func(ctx context.Context, engine timeout.Engine) (err error) {
		view, err = engine.Beat(ctx, node, ttl)
		return err
	})
	return view, err
}

// Leave is timeout.Members', of the first shard.
func (e *core) Leave(ctx context.Context, name string) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	return e.call(ctx, e.shards[0], func(ctx context.Context, engine timeout.Engine) error { return engine.Leave(ctx, name) })
}

// Upkeep is timeout.Engine's, of all shards that answer. It brings their topics in line, too.
func (e *core) Upkeep(ctx context.Context, term int64) (swept timeout.Swept, err error) {
	if err := e.enter(ctx); err != nil {
		return swept, err
	}
	each := make([]timeout.Swept, len(e.shards))
	errs := e.together(nil, func(s *shard) error {
		return e.callLong(ctx, s, func(ctx context.Context, engine timeout.Engine) (err error) {
			if err := e.align(ctx, s, engine); err != nil {
				return err
			}
			each[s.place], err = engine.Upkeep(ctx, term)
			return err
		})
	})
	for _, one := range each {
		swept.Add(one)
	}
	return swept, unlessSome(errs)
}

// unlessSome returns what all shards say, where that is an error of each: what one can't do is
// logged when that begins.
func unlessSome(errs []error) error {
	for _, err := range errs {
		if err == nil {
			return nil
		}
	}
	return errors.Join(errs...)
}

// Close is timeout.Engine's: it closes the shards. It is idempotent.
func (e *core) Close() error {
	e.closed.Store(true)
	e.end()
	e.guards.Wait()
	return e.closeShards()
}

func (e *core) closeShards() error {
	return errors.Join(e.together(nil, func(s *shard) error {
		if engine := s.known(); engine != nil {
			return engine.Close()
		}
		return nil
	})...)
}
