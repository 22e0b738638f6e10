package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// closeTime is how long Close waits for answers to the questions left with servers. Then it tells what it owes to
// servers, for as long.
const closeTime = time.Second

// Engine keeps tasks in Redis: see the package's comment, and engine.Engine for its methods.
// It is an engine.Waker, too. It keeps no log of executions.
type Engine struct {
	cfg   Config
	redis *redisrun.Client

	topicsKey, numberKey string
	memberKeys           []any
	channel              string

	// mu guards layouts and proofs. It is not held while Redis is asked.
	mu      sync.Mutex
	layouts map[string]*layout
	proofs  map[string]proof // of the copies in a Cluster, by topic

	owed owed
	late *late

	patience, linger, closeTime time.Duration // the constants, but for tests

	// step is called before each step of what takes several: tests stop there.
	step func(name string) error
}

var (
	_ engine.Engine = (*Engine)(nil)
	_ engine.Waker  = (*Engine)(nil)
	_ engine.Laned  = (*Engine)(nil)
	_ engine.Peeker = (*Engine)(nil)
)

func newEngine(r *redisrun.Client, cfg Config) *Engine {
	r.Shun()
	e := &Engine{
		cfg: cfg, redis: r, layouts: make(map[string]*layout), proofs: make(map[string]proof),
		owed: owed{topics: make(map[string]map[int]*debt), repaid: make(map[string]bool)}, late: newLate(),
		patience: patience, linger: linger, closeTime: closeTime,
		topicsKey:  cfg.Prefix + ":{topics}:t",
		numberKey:  cfg.Prefix + ":{topics}:n",
		memberKeys: []any{cfg.Prefix + ":{members}:z", cfg.Prefix + ":{members}:h", cfg.Prefix + ":{members}:m", cfg.Prefix + ":{members}:r"},
		channel:    cfg.Prefix + ":wake",
		step:       func(string) error { return nil },
	}
	return e
}

// Now returns the server's clock. In a Cluster it is the clock of the server with the topics.
func (e *Engine) Now(ctx context.Context) (now time.Time, err error) {
	err = e.redis.OnKey(ctx, e.topicsKey, func(client *goredis.Client) (err error) {
		if now, err = client.Time(ctx).Result(); err != nil {
			return fmt.Errorf("timeout/redis: asking for the time: %w", err)
		}
		return nil
	})
	return now.Truncate(time.Millisecond), err
}

// Ready is engine.Engine's: one server is enough.
func (e *Engine) Ready(ctx context.Context) error { return e.redis.Ready(ctx) }

// Lane is engine.Laned's: the server of the key, in a Cluster.
func (e *Engine) Lane(key engine.Key) int {
	if !e.redis.Clustered() {
		return 0
	}
	l := e.known(key.Topic)
	if l == nil { // the first one asks the server with the topics
		return 0
	}
	return e.laneOf(l.slot(key.ID))
}

// laneOf is the server of a place, in a Cluster.
func (e *Engine) laneOf(at *place) int { return e.redis.Lane(at.keys[0].(string)) }

// Close ends the engine, and the client if Open has made it. It is idempotent.
func (e *Engine) Close() error {
	e.late.close(e.closeTime)
	ctx, cancel := context.WithTimeout(context.Background(), e.closeTime)
	defer cancel()
	var all sync.WaitGroup
	for topic, outcomes := range e.owed.takeAll() {
		all.Go(func() { _, _ = e.Expire(ctx, engine.Ask{Topic: topic, Settle: outcomes}) }) // their leases end without it
	}
	all.Wait()
	defer e.late.work.Wait()
	return e.redis.Close()
}
