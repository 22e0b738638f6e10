package redis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// serversEvery is how often a Cluster is asked again which server has a partition.
const serversEvery = time.Second

// Engine keeps tasks in Redis: see the package's comment, and engine.Engine for its methods.
// It is an engine.Waker, too, and an engine.Log with Config.Executions.
type Engine struct {
	cfg   Config
	redis *redisrun.Client

	topicsKey, numberKey string
	memberKeys           []any
	channel              string

	migrating chan struct{} // full while this process migrates a topic

	// mu guards layouts and proofs. It is not held while Redis is asked.
	mu      sync.Mutex
	layouts map[string]*layout
	proofs  map[string]proof // of the copies in a Cluster, by topic

	// step is called before each step of what takes several: tests stop there.
	step func(name string) error
}

var (
	_ engine.Engine = (*Engine)(nil)
	_ engine.Log    = (*Engine)(nil)
	_ engine.Waker  = (*Engine)(nil)
	_ engine.Parted = (*Engine)(nil)
	_ engine.Peeker = (*Engine)(nil)
)

func newEngine(r *redisrun.Client, cfg Config) *Engine {
	r.Shun()
	e := &Engine{
		cfg: cfg, redis: r, layouts: make(map[string]*layout), proofs: make(map[string]proof),
		topicsKey:  cfg.Prefix + ":{topics}:t",
		numberKey:  cfg.Prefix + ":{topics}:n",
		memberKeys: []any{cfg.Prefix + ":{members}:z", cfg.Prefix + ":{members}:h", cfg.Prefix + ":{members}:m", cfg.Prefix + ":{members}:r"},
		channel:    cfg.Prefix + ":wake",
		migrating:  make(chan struct{}, 1),
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

// Parts is engine.Parted's: the servers of the slots' partitions, in a Cluster.
func (e *Engine) Parts(topic string, slots []int) (parts []int) {
	l := e.known(topic)
	if l == nil || !e.redis.Clustered() {
		return []int{0}
	}
	servers := e.serversOf(l)
	for _, part := range l.parts(slots) {
		if server := servers[part]; !slices.Contains(parts, server) {
			parts = append(parts, server)
		}
	}
	return parts
}

// Part is engine.Parted's: the server of the key, in a Cluster.
func (e *Engine) Part(key engine.Key) int {
	l := e.known(key.Topic)
	if l == nil || !e.redis.Clustered() { // the first one asks the server with the topics
		return 0
	}
	return e.serversOf(l)[l.partition(key.ID).part]
}

// serversOf returns the numbers of the servers of a topic's partitions, in a Cluster.
func (e *Engine) serversOf(l *layout) []int {
	s := &l.servers
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.byPart == nil || now.Sub(s.read) >= serversEvery {
		s.read, s.byPart = now, make([]int, len(l.partitions))
		for part, at := range l.partitions {
			s.byPart[part] = e.redis.Number(at.keys[0].(string))
		}
	}
	return s.byPart
}

// partsOn returns the partitions of some slots that are on a server. Zero means all servers.
func (e *Engine) partsOn(l *layout, slots []int, server int) []int {
	parts := l.parts(slots)
	if server == 0 || !e.redis.Clustered() {
		return parts
	}
	servers := e.serversOf(l)
	return slices.DeleteFunc(parts, func(part int) bool { return servers[part] != server })
}

// Close ends the engine, and the client if Open has made it. It is idempotent.
func (e *Engine) Close() error { return e.redis.Close() }
