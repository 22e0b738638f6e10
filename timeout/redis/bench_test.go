package redis_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// BenchmarkSet is about tasks set in batches by 4 goroutines.
func BenchmarkSet(b *testing.B) {
	for _, batch := range []int{8, 64, 256, 2048} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			server := startServer(b)
			e := openEngine(b, server, redis.Config{})
			_, err := e.SetTopic(context.Background(), engine.Topic{Name: "bench"}, false)
			require.NoError(b, err)
			batches := enginetest.Batches("bench", b.N, batch, time.Now().Add(time.Hour))
			b.ReportAllocs()
			before := server.cpu(b)
			b.ResetTimer()
			enginetest.SetBatches(b, e, batches, 4)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			b.ReportMetric((server.cpu(b)-before)*1e6/float64(b.N), "redis-µs/task")
		})
	}
}

// BenchmarkLease is about tasks, all due. Each call settles the leases of the call before.
func BenchmarkLease(b *testing.B) {
	for _, workers := range []int{1, 4} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			server := startServer(b, "--slowlog-log-slower-than", "1000", "--slowlog-max-len", "100000")
			e := openEngine(b, server, redis.Config{})
			_, err := e.SetTopic(context.Background(), engine.Topic{Name: "bench"}, false)
			require.NoError(b, err)
			enginetest.Fill(b, e, "bench", b.N)
			b.ReportAllocs()
			before := server.cpu(b)
			b.ResetTimer()
			require.Equal(b, b.N, enginetest.Drain(b, e, "bench", workers, 256))
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

// BenchmarkMemory is about how much a server keeps for a task with an id of 17 bytes and a
// payload of 64.
func BenchmarkMemory(b *testing.B) {
	server := startServer(b)
	e := openEngine(b, server, redis.Config{})
	_, err := e.SetTopic(context.Background(), engine.Topic{Name: "bench"}, false)
	require.NoError(b, err)
	before := server.info(b, "memory", "used_memory")
	enginetest.SetBatches(b, e, enginetest.Batches("bench", b.N, 10_000, time.Now().Add(time.Hour)), 1)
	b.ReportMetric((server.info(b, "memory", "used_memory")-before)/float64(b.N), "B/task")
}

// counting counts the calls of Set.
type counting struct {
	*redis.Engine
	calls atomic.Int64
}

func (c *counting) Set(ctx context.Context, tasks []engine.Task) ([]engine.Answer, error) {
	c.calls.Add(1)
	return c.Engine.Set(ctx, tasks)
}

// BenchmarkSetSingly is about tasks set one by one, by so many goroutines, through a center.
func BenchmarkSetSingly(b *testing.B) {
	for _, callers := range []int{1, 8, 64, 1024} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			server := startServer(b)
			e := &counting{Engine: openEngine(b, server, redis.Config{})}
			center, err := timeout.New(e, timeout.Config{})
			require.NoError(b, err)
			defer center.Close()
			tasks := slices.Concat(enginetest.Batches("bench", b.N, 10_000, time.Now().Add(time.Hour))...)
			_, err = center.Set(context.Background(), engine.Task{Topic: "bench", ID: "first", After: time.Hour})
			require.NoError(b, err)
			b.ReportAllocs()
			before := server.cpu(b)
			b.ResetTimer()
			var next atomic.Int64
			var all errgroup.Group
			for range callers {
				all.Go(func() error {
					for i := next.Add(1) - 1; int(i) < len(tasks); i = next.Add(1) - 1 {
						if _, err := center.Set(context.Background(), tasks[i]); err != nil {
							return err
						}
					}
					return nil
				})
			}
			require.NoError(b, all.Wait())
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			b.ReportMetric((server.cpu(b)-before)*1e6/float64(b.N), "redis-µs/task")
			b.ReportMetric(float64(b.N)/float64(e.calls.Load()), "tasks/call")
		})
	}
}

// BenchmarkMove has 10,000 tasks. Two clients move them over and over, 64 at a time, each time to a
// later time.
func BenchmarkMove(b *testing.B) {
	server := startServer(b)
	e := openEngine(b, server, redis.Config{})
	_, err := e.SetTopic(b.Context(), engine.Topic{Name: "bench"}, false)
	require.NoError(b, err)
	start := time.Now().Add(time.Hour)
	tasks := slices.Concat(enginetest.Batches("bench", 10_000, 1000, start)...)
	enginetest.SetBatches(b, e, [][]engine.Task{tasks}, 1)
	const batch = 64
	memory := server.info(b, "memory", "used_memory")
	before := server.cpu(b)
	b.ReportAllocs()
	b.ResetTimer()
	var next atomic.Int64
	var clients errgroup.Group
	for range 2 {
		clients.Go(func() error {
			for {
				from := int(next.Add(batch)) - batch
				if from >= b.N {
					return nil
				}
				moves := make([]engine.Move, min(batch, b.N-from))
				for i := range moves {
					moves[i] = engine.Move{Key: tasks[(from+i)%len(tasks)].Key(), Due: start.Add(time.Duration(from+i) * time.Millisecond)}
				}
				if _, err := e.Move(b.Context(), moves); err != nil {
					return err
				}
			}
		})
	}
	require.NoError(b, clients.Wait())
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "moves/s")
	b.ReportMetric((server.cpu(b)-before)*1e6/float64(b.N), "redis-µs/move")
	b.ReportMetric(server.info(b, "memory", "used_memory")/memory, "size-ratio")
}
