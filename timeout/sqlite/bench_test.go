package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

func makeTasks(from, count int, due time.Time) []timeout.Task {
	tasks := make([]timeout.Task, count)
	payload := make([]byte, 64)
	for i := range tasks {
		tasks[i] = timeout.Task{Topic: "bench", ID: fmt.Sprintf("task-%012d", from+i), Payload: payload, Due: due}
	}
	return tasks
}

func benchEngine(b *testing.B) *sqlite.Engine {
	engine, err := sqlite.Open(filepath.Join(b.TempDir(), "tasks.db"), sqlite.Config{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, engine.Close()) })
	_, err = engine.SetTopic(context.Background(), timeout.Topic{Name: "bench"}, false)
	require.NoError(b, err)
	return engine
}

// BenchmarkSet is about new tasks that are set in batches by one goroutine.
func BenchmarkSet(b *testing.B) {
	for _, batch := range []int{64, 1000} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			engine := benchEngine(b)
			batches := make([][]timeout.Task, 0, b.N/batch+1)
			for from := 0; from < b.N; from += batch {
				batches = append(batches, makeTasks(from, min(batch, b.N-from), time.Now().Add(time.Hour)))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for _, tasks := range batches {
				_, err := engine.Set(context.Background(), tasks)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// BenchmarkExpire is about tasks that are all due: each call settles those of the one before.
func BenchmarkExpire(b *testing.B) {
	for _, most := range []int{256, 1024} {
		b.Run(fmt.Sprintf("max=%d", most), func(b *testing.B) {
			engine := benchEngine(b)
			for from := 0; from < b.N; from += 10000 {
				_, err := engine.Set(context.Background(), makeTasks(from, min(10000, b.N-from), time.Unix(1, 0)))
				require.NoError(b, err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			require.Equal(b, b.N, drain(b, engine, most))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

func drain(t testing.TB, engine *sqlite.Engine, most int) (done int) {
	var settle []timeout.Outcome
	for {
		batch, err := engine.Expire(context.Background(), timeout.Ask{Topic: "bench", Node: "node-1", Settle: settle, Max: most, Lease: time.Minute})
		require.NoError(t, err)
		for _, ok := range batch.Settled {
			if ok {
				done++
			}
		}
		if len(batch.Leased) == 0 {
			return done
		}
		settle = settle[:0]
		for _, leased := range batch.Leased {
			settle = append(settle, timeout.Outcome{Token: leased.Token, As: timeout.Done})
		}
	}
}
