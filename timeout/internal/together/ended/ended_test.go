// Package ended_test measures how soon a handler hears that its task was set or removed on another node.
package ended_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/index"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
	redisengine "github.com/heartwheel-go/heartwheel/timeout/redis"
	"github.com/heartwheel-go/heartwheel/timeout/sharded"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	testserver.Main(m)
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

var silent = slog.New(slog.DiscardHandler)

// kept returns an engine, closed after the test.
func kept[E engine.Engine](t testing.TB, e E, err error) E {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func inMemory(t testing.TB) engine.Engine {
	e, err := memory.New(memory.Config{})
	return kept(t, e, err)
}

// stores return, by name, how a node opens an engine on one store.
var stores = []struct {
	name string
	of   func(t testing.TB) (open func() engine.Engine)
}{
	{"memory", func(t testing.TB) func() engine.Engine {
		e := inMemory(t)
		return func() engine.Engine { return e }
	}},
	{"sqlite", func(t testing.TB) func() engine.Engine {
		dir := t.TempDir()
		return func() engine.Engine { return file(t, dir, 0) }
	}},
	{"postgres", func(t testing.TB) func() engine.Engine {
		url := testserver.Database(t)
		return func() engine.Engine { return database(t, url) }
	}},
	{"redis", func(t testing.TB) func() engine.Engine {
		return server(t, testserver.SharedRedis(t).URL)
	}},
	{"cluster", func(t testing.TB) func() engine.Engine {
		return server(t, testserver.SharedRedisCluster(t).Nodes[1].URL)
	}},
	{"index", func(t testing.TB) func() engine.Engine {
		url := testserver.Database(t)
		return func() engine.Engine {
			e, err := index.New(database(t, url), inMemory(t), index.Config{Logger: silent})
			return kept(t, e, err)
		}
	}},
	{"sharded", func(t testing.TB) func() engine.Engine {
		dir := t.TempDir()
		return func() engine.Engine {
			e, err := sharded.New(t.Context(), []engine.Engine{file(t, dir, 0), file(t, dir, 1)}, sharded.Config{CallTimeout: time.Minute, Logger: silent})
			return kept(t, e, err)
		}
	}},
}

func file(t testing.TB, dir string, n int) *sqlite.Engine {
	e, err := sqlite.Open(filepath.Join(dir, strconv.Itoa(n)), sqlite.Config{})
	return kept(t, e, err)
}

func database(t testing.TB, url string) *postgres.Engine {
	e, err := postgres.Open(t.Context(), url+"&pool_max_conns=8", postgres.Config{})
	return kept(t, e, err)
}

func server(t testing.TB, url string) func() engine.Engine {
	return func() engine.Engine {
		e, err := redisengine.Open(t.Context(), url+"?dial_timeout=1m&read_timeout=1m", redisengine.Config{Prefix: "ended"})
		return kept(t, e, err)
	}
}

// endings has a handler of one node run n tasks, and another node remove or set each of them. It returns how long it was
// from the return of that call to the end of the handler's context.
func endings(t testing.TB, open func() engine.Engine, n int) []time.Duration {
	topic := "orders-" + strconv.FormatUint(rand.Uint64(), 36)
	runner, err := timeout.New(open(), timeout.Config{Node: "runner", Logger: silent, Topic: timeout.Topic{Lease: 10 * time.Minute}})
	require.NoError(t, err)
	other, err := timeout.New(open(), timeout.Config{Node: "other", Logger: silent})
	require.NoError(t, err)
	begun, ended := make(chan string, 10), make(chan time.Time, 10)
	require.NoError(t, runner.Handle(topic, func(ctx context.Context, task timeout.Task) error {
		begun <- task.ID
		<-ctx.Done()
		ended <- time.Now()
		return nil
	}))
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- runner.Run(ctx) }()
	defer func() {
		cancel()
		require.NoError(t, <-ran)
		require.NoError(t, runner.Close())
		require.NoError(t, other.Close())
	}()
	var waits []time.Duration
	for i := range n {
		id := strconv.Itoa(i)
		_, err := runner.Set(t.Context(), timeout.Task{Topic: topic, ID: id})
		require.NoError(t, err)
		require.Equal(t, id, <-begun)
		time.Sleep(rand.N(50 * time.Millisecond)) // at any time between two looks of an engine
		var answer timeout.Answer
		if i%2 == 0 {
			answer, err = other.Remove(t.Context(), timeout.Key{Topic: topic, ID: id})
		} else {
			answer, err = other.Set(t.Context(), timeout.Task{Topic: topic, ID: id, After: time.Hour})
		}
		returned := time.Now()
		require.NoError(t, err)
		require.Equal(t, timeout.Running, answer.Was)
		waits = append(waits, (<-ended).Sub(returned))
	}
	slices.Sort(waits)
	return waits
}

func TestAHandlerHearsAtOnceOfTheEndOfItsTaskOnAnotherNode(t *testing.T) {
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			waits := endings(t, store.of(t), 50)
			t.Logf("p50 %v, p90 %v, longest %v", waits[25], waits[45], waits[49])
			require.Less(t, waits[49], 2*time.Second, "the next extension of the lease is minutes away")
		})
	}
}

func BenchmarkEndOfAHandler(b *testing.B) {
	for _, store := range stores {
		b.Run(store.name, func(b *testing.B) {
			open := store.of(b)
			b.ResetTimer()
			waits := endings(b, open, b.N)
			b.ReportMetric(float64(waits[b.N/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(waits[b.N*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
