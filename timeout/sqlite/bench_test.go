package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

const benchBatch = 512

func benchTasks(from int, due time.Time) []timeout.Task {
	tasks := make([]timeout.Task, benchBatch)
	for i := range tasks {
		tasks[i] = timeout.Task{Topic: "bench", ID: fmt.Sprintf("task-%012d", from+i), Payload: make([]byte, 64), Due: due}
	}
	return tasks
}

func benchEngine(b *testing.B) *sqlite.Engine {
	engine := open(b, file(b), sqlite.Config{})
	_, err := engine.SetTopic(b.Context(), timeout.Topic{Name: "bench"}, true)
	require.NoError(b, err)
	return engine
}

func BenchmarkSet(b *testing.B) {
	for _, kind := range []string{"new", "again"} {
		b.Run("tasks="+kind, func(b *testing.B) {
			engine := benchEngine(b)
			from := 0
			for b.Loop() {
				_, err := engine.Set(b.Context(), benchTasks(from, time.Now().Add(time.Hour)))
				require.NoError(b, err)
				if from += benchBatch; kind == "again" {
					from %= 20 * benchBatch
				}
			}
			b.ReportMetric(float64(b.N)*benchBatch/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

func BenchmarkExpire(b *testing.B) {
	engine := benchEngine(b)
	from := 0
	var settle []timeout.Outcome
	for b.Loop() {
		b.StopTimer()
		_, err := engine.Set(b.Context(), benchTasks(from, time.Time{}))
		require.NoError(b, err)
		from += benchBatch
		b.StartTimer()
		batch, err := engine.Expire(b.Context(), timeout.Ask{Topic: "bench", Node: "bench", Settle: settle, Max: benchBatch, Lease: time.Minute})
		require.NoError(b, err)
		require.Len(b, batch.Leased, benchBatch)
		settle = settle[:0]
		for _, leased := range batch.Leased {
			settle = append(settle, timeout.Outcome{Token: leased.Token, As: timeout.Done})
		}
	}
	b.ReportMetric(float64(b.N)*benchBatch/b.Elapsed().Seconds(), "tasks/s")
}

func BenchmarkLook(b *testing.B) {
	engine := benchEngine(b)
	_, err := engine.Set(b.Context(), benchTasks(0, time.Now().Add(time.Hour)))
	require.NoError(b, err)
	for b.Loop() {
		_, err := engine.Expire(b.Context(), timeout.Ask{Topic: "bench", Node: "bench", Max: benchBatch, Lease: time.Minute})
		require.NoError(b, err)
	}
}
