package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

func benchEngine(b *testing.B) *sqlite.Engine {
	e, err := sqlite.Open(filepath.Join(b.TempDir(), "tasks.db"), sqlite.Config{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, e.Close()) })
	_, err = e.SetTopic(context.Background(), engine.Topic{Name: "bench"}, false)
	require.NoError(b, err)
	return e
}

// BenchmarkSet sets new tasks in batches, with one goroutine.
func BenchmarkSet(b *testing.B) {
	for _, batch := range []int{64, 1000} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			engine := benchEngine(b)
			batches := enginetest.Batches("bench", b.N, batch, time.Now().Add(time.Hour))
			b.ReportAllocs()
			b.ResetTimer()
			enginetest.SetBatches(b, engine, batches, 1)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// BenchmarkLease leases due tasks. Each call settles the tasks of the last one.
func BenchmarkLease(b *testing.B) {
	for _, most := range []int{256, 1024} {
		b.Run(fmt.Sprintf("max=%d", most), func(b *testing.B) {
			engine := benchEngine(b)
			enginetest.Fill(b, engine, "bench", b.N)
			b.ReportAllocs()
			b.ResetTimer()
			require.Equal(b, b.N, enginetest.Drain(b, engine, "bench", 1, most))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// BenchmarkMove moves tasks to a later time over and over, with two goroutines: a heartbeat of
// each of 10,000 connections, in the order of their making or in no order.
func BenchmarkMove(b *testing.B) {
	b.Run("order=set", func(b *testing.B) { benchmarkMove(b, 1) })
	b.Run("order=none", func(b *testing.B) { benchmarkMove(b, 7919) })
}

// benchmarkMove moves tasks in steps of the given width.
func benchmarkMove(b *testing.B, step int) {
	const tasks, batch, clients = 10_000, 64, 2
	path := filepath.Join(b.TempDir(), "tasks.db")
	e, err := sqlite.Open(path, sqlite.Config{})
	require.NoError(b, err)
	_, err = e.SetTopic(b.Context(), engine.Topic{Name: "bench"}, false)
	require.NoError(b, err)
	for _, some := range enginetest.Batches("bench", tasks, 1000, time.Now().Add(time.Hour)) {
		_, err := e.Set(b.Context(), some)
		require.NoError(b, err)
	}
	begin := size(b, e, path)
	e, err = sqlite.Open(path, sqlite.Config{})
	require.NoError(b, err)
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range clients {
		all.Go(func() {
			for from := next.Add(batch) - batch; from < int64(b.N); from = next.Add(batch) - batch {
				moves := make([]engine.Move, min(batch, b.N-int(from)))
				for i := range moves {
					id := fmt.Sprintf("task-%012d", (int(from)+i)*step%tasks)
					moves[i] = engine.Move{Key: engine.Key{Topic: "bench", ID: id}, After: time.Hour}
				}
				if _, err := e.Move(b.Context(), moves); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "moves/s")
	b.StopTimer()
	b.ReportMetric(float64(size(b, e, path))/float64(begin), "size/begin")
}

// size closes a database and returns its size in bytes.
func size(b *testing.B, engine *sqlite.Engine, path string) int64 {
	require.NoError(b, engine.Close())
	info, err := os.Stat(path)
	require.NoError(b, err)
	return info.Size()
}
