package sharded

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// chunk is the largest number of tasks in a call of a shard. It bounds the work done within
// CallTimeout.
const chunk = 1000

// core is the engine, without a Waker.
type core struct {
	cfg    Config
	shards []*shard
	turn   atomic.Uint32
	closed atomic.Bool
	life   context.Context // ends with the engine
	end    context.CancelFunc
	guards sync.WaitGroup

	admitted chan struct{} // closed when found has succeeded
	list     string        // the name of this list of shards, see marker; stays since then

	mu    sync.Mutex     // guards slots
	slots map[string]int // by topic, as last read from a shard; without one all shards are asked
}

var (
	_ engine.Engine = (*core)(nil)
	_ engine.Log    = (*core)(nil)
	_ engine.Parted = (*core)(nil)
)

func start(ctx context.Context, openers []func(context.Context) (engine.Engine, error), wakers, own bool, cfg Config) (engine.Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(len(openers)); err != nil {
		return nil, err
	}
	e := &core{cfg: cfg, admitted: make(chan struct{}), slots: make(map[string]int)}
	e.life, e.end = context.WithCancel(context.Background())
	for index, open := range openers {
		s := newShard(index, open)
		e.shards = append(e.shards, s)
		e.guards.Go(func() { e.guard(s) })
	}
	if err := e.found(ctx); err != nil {
		e.end()
		if own { // the shards were opened here
			err = errors.Join(err, e.closeShards())
		}
		return nil, err
	}
	close(e.admitted)
	if wakers {
		return struct {
			*core
			waker
		}{e, waker{e}}, nil
	}
	return e, nil
}

// enter refuses a call if the engine is closed or the context has ended.
func (e *core) enter(ctx context.Context) error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	return ctx.Err()
}

// together calls do for some shards at the same time and returns the errors, by their index. If which
// is nil, it calls do for all shards.
func (e *core) together(which func(index int) bool, do func(s *shard) error) []error {
	errs := make([]error, len(e.shards))
	var running sync.WaitGroup
	for index, s := range e.shards {
		if which == nil || which(index) {
			running.Go(func() { errs[index] = do(s) })
		}
	}
	running.Wait()
	return errs
}

// Now implements engine.Engine: it returns the latest of the answering shards' clocks.
func (e *core) Now(ctx context.Context) (time.Time, error) {
	clocks := make([]time.Time, len(e.shards))
	errs := e.together(nil, func(s *shard) error {
		return e.call(ctx, s, func(ctx context.Context, eng engine.Engine) (err error) {
			clocks[s.index], err = eng.Now(ctx)
			return err
		})
	})
	return slices.MaxFunc(clocks, time.Time.Compare), allFailed(errs)
}

// Ready implements engine.Engine: one shard is enough.
func (e *core) Ready(ctx context.Context) error {
	ctx, found := context.WithCancel(ctx)
	defer found()
	return allFailed(e.together(nil, func(s *shard) error {
		err := e.call(ctx, s, func(ctx context.Context, eng engine.Engine) error { return eng.Ready(ctx) })
		if err == nil {
			found() // don't wait for hanging shards
		}
		return err
	}))
}

// Heartbeat implements engine.Members with the first shard.
func (e *core) Heartbeat(ctx context.Context, node engine.Node, ttl time.Duration) (view engine.View, err error) {
	err = e.call(ctx, e.shards[0], func(ctx context.Context, eng engine.Engine) (err error) {
		view, err = eng.Heartbeat(ctx, node, ttl)
		return err
	})
	return view, err
}

// Leave implements engine.Members with the first shard.
func (e *core) Leave(ctx context.Context, name string) error {
	return e.call(ctx, e.shards[0], func(ctx context.Context, eng engine.Engine) error { return eng.Leave(ctx, name) })
}

// Maintain implements engine.Engine, for all answering shards. It also aligns their topics.
func (e *core) Maintain(ctx context.Context) (purged engine.Purged, err error) {
	each := make([]engine.Purged, len(e.shards))
	errs := e.together(nil, func(s *shard) error {
		return e.callLong(ctx, s, func(ctx context.Context, eng engine.Engine) (err error) {
			if err := e.alignLater(ctx, s, eng); err != nil {
				return err
			}
			each[s.index], err = eng.Maintain(ctx)
			return err
		})
	})
	for _, one := range each {
		purged.Add(one)
	}
	return purged, allFailed(errs)
}

// Close implements engine.Engine: it closes the shards. It is idempotent.
func (e *core) Close() error {
	e.closed.Store(true)
	e.end()
	return e.closeShards()
}

// closeShards closes what was opened, at the latest at the end.
func (e *core) closeShards() error {
	e.guards.Wait()
	return errors.Join(e.together(nil, func(s *shard) error {
		if engine := s.known(); engine != nil {
			return engine.Close()
		}
		return nil
	})...)
}
