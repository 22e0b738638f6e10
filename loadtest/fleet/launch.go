package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/heartwheel-go/heartwheel/internal/redisserver"
	"github.com/heartwheel-go/heartwheel/loadtest/internal/child"
	"github.com/heartwheel-go/heartwheel/loadtest/internal/proc"
)

// Launch starts Redis and the nodes, and waits until they listen. env is the nodes' environment; nil is
// this process's. The thread must be locked, and stay until Kill. The caller must call Kill, unless
// there is an error.
func (f *Fleet) Launch(ctx context.Context, env []string, m Meter) (_ *child.Group, err error) {
	f.meter = m
	defer func() {
		if err != nil {
			f.Kill()
		}
	}()
	url := f.cfg.Redis
	if url == "" {
		if f.redis, err = startRedis(ctx); err != nil {
			return nil, err
		}
		url = f.redis.URL
	}
	if f.binary = f.cfg.Server; f.binary == "" {
		dir, err := f.servers.Dir()
		if err != nil {
			return nil, fmt.Errorf("building the gateway: %w", err)
		}
		if f.binary, err = BuildGateway(ctx, dir); err != nil {
			return nil, err
		}
	}
	f.args, f.env = f.cfg.gatewayArgs(f.prefix), gatewayEnv(env, url)
	if f.cfg.Batches {
		defer proc.WorkInBatches()() // the nodes inherit it
	}
	for i := range f.cfg.Nodes {
		if _, err := f.startNode(fmt.Sprintf("node-%d", i+1)); err != nil {
			return nil, err
		}
	}
	for _, n := range f.all() {
		if err := n.listens(ctx); err != nil {
			return nil, err
		}
	}
	return &f.servers, nil
}

func startRedis(ctx context.Context) (*redisserver.Server, error) {
	r, err := redisserver.Start(ctx)
	if errors.Is(err, redisserver.ErrMissing) {
		err = fmt.Errorf("%w, or -redis says where one runs", err)
	}
	return r, err
}

// UntilRedisEnds returns a context that is done with ctx, or at the end of the fleet's own Redis: a run
// without it tells nothing more. The caller must call release.
func (f *Fleet) UntilRedisEnds(ctx context.Context) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	if f.redis != nil {
		watch.Go(func() {
			select {
			case <-f.redis.Ended():
				cancel(f.redis.Err())
			case <-ctx.Done():
			}
		})
	}
	return ctx, func() {
		cancel(nil)
		watch.Wait()
	}
}

// Kill ends all processes in any case, and removes what Launch has built.
func (f *Fleet) Kill() {
	f.servers.Kill()
	f.watches.Wait()
	if f.redis != nil {
		f.redis.Stop()
	}
}
