package redis_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

func TestMain(m *testing.M) {
	testmain.Parallel(6)        // they mostly wait
	goredis.SetLogger(silent{}) // servers are killed here
	// The client's pool looks every second whether a server is there again, also once after it
	// has been closed.
	testserver.Main(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// server is a Redis server of the tests.
type server struct{ *testserver.Server }

func startServer(t testing.TB, args ...string) server { return server{testserver.Redis(t, args...)} }

// sharedServer is one server for all harmless tests.
func sharedServer(t testing.TB) server { return server{testserver.SharedRedis(t)} }

// startCluster starts so many masters, and as many replicas of each.
func startCluster(t testing.TB, masters, replicas int) (*testserver.Cluster, []server) {
	return clusterOf(testserver.RedisCluster(t, masters, replicas))
}

// shareCluster has a test run in parallel to others, and returns a Cluster for all tests that do it no harm.
func shareCluster(t *testing.T) []server {
	t.Parallel()
	_, servers := clusterOf(testserver.SharedRedisCluster(t))
	return servers
}

// startClusterOf starts so many masters with arguments.
func startClusterOf(t testing.TB, masters int, args ...string) (*testserver.Cluster, []server) {
	return clusterOf(testserver.RedisCluster(t, masters, 0, args...))
}

func clusterOf(cluster *testserver.Cluster) (*testserver.Cluster, []server) {
	servers := make([]server, len(cluster.Nodes))
	for i, node := range cluster.Nodes {
		servers[i] = server{node}
	}
	return cluster, servers
}

func (s server) client(t testing.TB) *goredis.Client {
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr, MaxRetries: -1, DialTimeout: time.Minute, ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	return client
}

// clients are those of sameClient.
var clients sync.Map

// sameClient is client for what a test asks often. It connects once.
func (s server) sameClient(t testing.TB) *goredis.Client {
	type user struct {
		t testing.TB
		*testserver.Server
	}
	by := user{t, s.Server}
	known, ok := clients.Load(by)
	if !ok {
		known = s.client(t)
		clients.Store(by, known)
		t.Cleanup(func() { clients.Delete(by) })
	}
	return known.(*goredis.Client)
}

// patient is the URL with a minute for each connection and answer, unless it says otherwise. The defaults are five and three
// seconds. After a longer stop of this process, those of the meantime would be errors.
func (s server) patient() string {
	if strings.Contains(s.URL, "?") {
		return s.URL
	}
	return s.URL + "?dial_timeout=1m&read_timeout=1m"
}

// info returns a figure of the server about itself.
func (s server) info(t testing.TB, section, field string) float64 {
	all, err := s.client(t).InfoMap(context.Background(), section).Result()
	require.NoError(t, err)
	for _, fields := range all {
		if text, ok := fields[field]; ok {
			number, err := strconv.ParseFloat(text, 64)
			require.NoError(t, err)
			return number
		}
	}
	t.Fatalf("no %s", field)
	return 0
}

// cpu returns how many seconds of a processor the server has used.
func (s server) cpu(t testing.TB) float64 {
	return s.info(t, "cpu", "used_cpu_user") + s.info(t, "cpu", "used_cpu_sys")
}

var prefixes atomic.Int64

func prefix() string { return fmt.Sprintf("test-%d", prefixes.Add(1)) }

// openEngine opens an engine, and closes it after the test.
func openEngine(t testing.TB, s server, cfg redis.Config) *redis.Engine {
	t.Helper()
	if cfg.Prefix == "" {
		cfg.Prefix = prefix()
	}
	engine, err := redis.Open(context.Background(), s.patient(), cfg)
	require.NoError(t, err)
	return closed(t, engine)
}

func closed(t testing.TB, engine *redis.Engine) *redis.Engine {
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	return engine
}

// doors returns a client of the Cluster by way of each server, as Open makes it. Engines one after the other may share
// it: they take their time to connect.
func doors(t testing.TB, servers []server) (doors []*goredis.ClusterClient) {
	for _, s := range servers {
		client := goredis.NewClusterClient(&goredis.ClusterOptions{
			Addrs: []string{s.Addr}, DialTimeout: time.Minute, ReadTimeout: time.Minute, DialerRetries: 1, MaxRetries: -1, ContextTimeoutEnabled: true,
		})
		t.Cleanup(func() { client.Close() })
		doors = append(doors, client)
	}
	return doors
}

// newEngine is openEngine with a client that is there.
func newEngine(t testing.TB, door *goredis.ClusterClient, cfg redis.Config) *redis.Engine {
	t.Helper()
	if cfg.Prefix == "" {
		cfg.Prefix = prefix()
	}
	engine, err := redis.New(door, cfg)
	require.NoError(t, err)
	return closed(t, engine)
}
