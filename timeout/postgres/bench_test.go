package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

func makeTasks(from, count int, due time.Time) []timeout.Task {
	tasks := make([]timeout.Task, count)
	payload := make([]byte, 64)
	for i := range tasks {
		tasks[i] = timeout.Task{Topic: "bench", ID: fmt.Sprintf("task-%012d", from+i), Payload: payload, Due: due}
	}
	return tasks
}

// BenchmarkSet is about tasks set in batches of 1000 by 4 goroutines.
func BenchmarkSet(b *testing.B) {
	const batch = 1000
	engine := openTopic(b, timeout.Topic{Name: "bench"})
	due := time.Now().Add(time.Hour)
	batches := make([][]timeout.Task, 0, b.N/batch+1)
	for from := 0; from < b.N; from += batch {
		batches = append(batches, makeTasks(from, min(batch, b.N-from), due))
	}
	b.ReportAllocs()
	b.ResetTimer()
	var next atomic.Int64
	inParallel(4, func() {
		for i := next.Add(1) - 1; int(i) < len(batches); i = next.Add(1) - 1 {
			_, err := engine.Set(context.Background(), batches[i])
			require.NoError(b, err)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkExpire is about tasks that are all due: each call settles those of the one before.
func BenchmarkExpire(b *testing.B) {
	for _, workers := range []int{1, 4} {
		for _, most := range []int{256, 1000} {
			b.Run(fmt.Sprintf("workers=%d/max=%d", workers, most), func(b *testing.B) {
				engine := openTopic(b, timeout.Topic{Name: "bench"})
				for from := 0; from < b.N; from += 10000 {
					_, err := engine.Set(context.Background(), makeTasks(from, min(10000, b.N-from), time.Unix(1, 0)))
					require.NoError(b, err)
				}
				b.ReportAllocs()
				b.ResetTimer()
				var done atomic.Int64
				inParallel(workers, func() { drain(b, engine, most, &done) })
				require.EqualValues(b, b.N, done.Load())
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			})
		}
	}
}

func drain(t testing.TB, engine *postgres.Engine, most int, done *atomic.Int64) {
	var settle []timeout.Outcome
	for {
		batch, err := engine.Expire(context.Background(), timeout.Ask{Topic: "bench", Node: "node-1", Settle: settle, Max: most, Lease: time.Minute})
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
