package redis_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

func makeTasks(from, count int, due time.Time) []timeout.Task {
	tasks := make([]timeout.Task, count)
	payload := make([]byte, 64)
	for i := range tasks {
		tasks[i] = timeout.Task{Topic: "bench", ID: fmt.Sprintf("task-%012d", from+i), Payload: payload, Due: due}
	}
	return tasks
}

// BenchmarkSet is about tasks set in batches by 4 goroutines.
func BenchmarkSet(b *testing.B) {
	for _, batch := range []int{8, 64, 256, 2048} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			server := startServer(b)
			engine := openEngine(b, server, redis.Config{})
			_, err := engine.SetTopic(context.Background(), timeout.Topic{Name: "bench"}, false)
			require.NoError(b, err)
			due := time.Now().Add(time.Hour)
			batches := make([][]timeout.Task, 0, b.N/batch+1)
			for from := 0; from < b.N; from += batch {
				batches = append(batches, makeTasks(from, min(batch, b.N-from), due))
			}
			b.ReportAllocs()
			before := server.cpu(b)
			b.ResetTimer()
			var next atomic.Int64
			inParallel(4, func() {
				for i := next.Add(1) - 1; int(i) < len(batches); i = next.Add(1) - 1 {
					_, err := engine.Set(context.Background(), batches[i])
					require.NoError(b, err)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			b.ReportMetric((server.cpu(b)-before)*1e6/float64(b.N), "redis-µs/task")
		})
	}
}

// BenchmarkExpire is about tasks that are all due: each call settles those of the one before.
func BenchmarkExpire(b *testing.B) {
	for _, workers := range []int{1, 4} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			server := startServer(b, "--slowlog-log-slower-than", "1000", "--slowlog-max-len", "100000")
			engine := openEngine(b, server, redis.Config{})
			_, err := engine.SetTopic(context.Background(), timeout.Topic{Name: "bench"}, false)
			require.NoError(b, err)
			for from := 0; from < b.N; from += 10000 {
				_, err := engine.Set(context.Background(), makeTasks(from, min(10000, b.N-from), time.Unix(1, 0)))
				require.NoError(b, err)
			}
			b.ReportAllocs()
			before := server.cpu(b)
			b.ResetTimer()
			var done atomic.Int64
			inParallel(workers, func() { drain(b, engine, 256, &done) })
			require.EqualValues(b, b.N, done.Load())
			slow, err := server.client(b).SlowLogGet(context.Background(), 100000).Result()
			require.NoError(b, err)
			longest := time.Duration(0)
			for _, entry := range slow {
				longest = max(longest, entry.Duration)
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "longest-script-ms")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			b.ReportMetric((server.cpu(b)-before)*1e6/float64(b.N), "redis-µs/task")
		})
	}
}

func drain(t testing.TB, engine *redis.Engine, batch int, done *atomic.Int64) {
	t.Helper()
	drainTopic(t, engine, "bench", batch, done)
}

// BenchmarkMemory is about how much a server keeps for a task with an id of 17 bytes and a
// payload of 64.
func BenchmarkMemory(b *testing.B) {
	server := startServer(b)
	engine := openEngine(b, server, redis.Config{})
	_, err := engine.SetTopic(context.Background(), timeout.Topic{Name: "bench"}, false)
	require.NoError(b, err)
	before := server.info(b, "memory", "used_memory")
	for from := 0; from < b.N; from += 10000 {
		_, err := engine.Set(context.Background(), makeTasks(from, min(10000, b.N-from), time.Now().Add(time.Hour)))
		require.NoError(b, err)
	}
	b.ReportMetric((server.info(b, "memory", "used_memory")-before)/float64(b.N), "B/task")
}

// drainTopic leases and settles until nothing is due, and counts.
func drainTopic(t testing.TB, engine *redis.Engine, topic string, most int, done *atomic.Int64) {
	t.Helper()
	var settle []timeout.Outcome
	for {
		batch, err := engine.Expire(context.Background(), timeout.Ask{Topic: topic, Node: "node-1", Settle: settle, Max: most, Lease: time.Minute})
		require.NoError(t, err)
		for _, ok := range batch.Settled {
			if ok {
				done.Add(1)
			}
		}
		if len(batch.Leased) == 0 {
			return
		}
		settle = settle[:0]
		for _, leased := range batch.Leased {
			settle = append(settle, timeout.Outcome{Token: leased.Token, As: timeout.Done})
		}
	}
}

func inParallel(workers int, do func()) {
	var all sync.WaitGroup
	for range workers {
		all.Go(do)
	}
	all.Wait()
}

// counting counts the calls of Set.
type counting struct {
	*redis.Engine
	calls atomic.Int64
}

func (c *counting) Set(ctx context.Context, tasks []timeout.Task) ([]timeout.Answer, error) {
	c.calls.Add(1)
	return c.Engine.Set(ctx, tasks)
}

// BenchmarkSetSingly is about tasks set one by one, by so many goroutines, through a centre.
func BenchmarkSetSingly(b *testing.B) {
	for _, callers := range []int{1, 8, 64, 1024} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			server := startServer(b)
			engine := &counting{Engine: openEngine(b, server, redis.Config{})}
			centre, err := timeout.New(engine, timeout.Config{})
			require.NoError(b, err)
			defer centre.Close()
			tasks := makeTasks(0, b.N, time.Now().Add(time.Hour))
			_, err = centre.Set(context.Background(), timeout.Task{Topic: "bench", ID: "first", After: time.Hour})
			require.NoError(b, err)
			b.ReportAllocs()
			before := server.cpu(b)
			b.ResetTimer()
			var next atomic.Int64
			inParallel(callers, func() {
				for i := next.Add(1) - 1; int(i) < len(tasks); i = next.Add(1) - 1 {
					_, err := centre.Set(context.Background(), tasks[i])
					require.NoError(b, err)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			b.ReportMetric((server.cpu(b)-before)*1e6/float64(b.N), "redis-µs/task")
			b.ReportMetric(float64(b.N)/float64(engine.calls.Load()), "tasks/call")
		})
	}
}
