package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Engine keeps tasks in Redis: see the package's comment, and timeout.Engine for its methods.
// It is a timeout.Waker, too. It keeps no log of executions.
type Engine struct {
	cfg     Config
	client  goredis.UniversalClient
	single  *goredis.Client        // or
	cluster *goredis.ClusterClient // one of both
	own     bool                   // Close closes the client
	closed  atomic.Bool

	topicsKey, numberKey string
	memberKeys           []any
	channel              string

	// mu guards layouts. It is not held while Redis is asked.
	mu      sync.Mutex
	layouts map[string]*layout

	owed owed

	// step is called before each step of what takes several: tests stop there.
	step func(name string) error
}

var (
	_ timeout.Engine = (*Engine)(nil)
	_ timeout.Waker  = (*Engine)(nil)
)

func newEngine(client goredis.UniversalClient, cfg Config, own bool) *Engine {
	e := &Engine{
		cfg: cfg, client: client, own: own, layouts: make(map[string]*layout),
		topicsKey:  cfg.Prefix + ":{topics}:t",
		numberKey:  cfg.Prefix + ":{topics}:n",
		memberKeys: []any{cfg.Prefix + ":{members}:z", cfg.Prefix + ":{members}:h", cfg.Prefix + ":{members}:m"},
		channel:    cfg.Prefix + ":wake",
		step:       func(string) error { return nil },
	}
	e.single, _ = client.(*goredis.Client)
	e.cluster, _ = client.(*goredis.ClusterClient)
	return e
}

// Now returns the server's clock, and in a Cluster that of the server which keeps the topics.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	client, err := e.forKey(ctx, e.topicsKey)
	if err != nil {
		return time.Time{}, err
	}
	now, err := client.Time(ctx).Result()
	if err != nil {
		return time.Time{}, e.wrap(fmt.Errorf("timeout/redis: asking for the time: %w", err))
	}
	return now.Truncate(time.Millisecond), nil
}

// forKey returns the server of a key, for single commands.
func (e *Engine) forKey(ctx context.Context, key string) (*goredis.Client, error) {
	if e.closed.Load() {
		return nil, timeout.ErrClosed
	}
	if e.cluster == nil {
		return e.single, nil
	}
	client, err := e.cluster.MasterForKey(ctx, key)
	return client, e.wrap(err)
}

// Close ends the engine, and the client if Open has made it. It is idempotent.
func (e *Engine) Close() error {
	if e.closed.Swap(true) || !e.own {
		return nil
	}
	if err := e.client.Close(); err != nil && !errors.Is(err, goredis.ErrClosed) {
		return fmt.Errorf("timeout/redis: closing the client: %w", err)
	}
	return nil
}
