package memory_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

const batch = 256

// benchmark opens an engine with a topic, and makes ids of 17 bytes and payloads of 64.
func benchmark(b *testing.B) (*memory.Engine, func(i int, after time.Duration) engine.Task) {
	e, err := memory.New(memory.Config{})
	require.NoError(b, err)
	b.Cleanup(func() { e.Close() })
	_, err = e.SetTopic(b.Context(), engine.Topic{Name: "orders"}, true)
	require.NoError(b, err)
	payload := make([]byte, 64)
	return e, func(i int, after time.Duration) engine.Task {
		return engine.Task{Topic: "orders", ID: fmt.Sprintf("order-%011d", i), Payload: payload, After: after}
	}
}

// perTask reports the tasks per second. Each b.N is a batch.
func perTask(b *testing.B) {
	b.ReportMetric(float64(b.N)*batch/b.Elapsed().Seconds(), "tasks/s")
}

func BenchmarkSet(b *testing.B) {
	e, task := benchmark(b)
	tasks := make([]engine.Task, batch)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		b.StopTimer()
		for i := range tasks {
			tasks[i] = task(n, time.Hour)
			n++
		}
		b.StartTimer()
		_, _ = e.Set(context.Background(), tasks)
	}
	perTask(b)
}

func BenchmarkMove(b *testing.B) {
	e, task := benchmark(b)
	const pending = 100_000
	for i := range pending {
		_, _ = e.Set(b.Context(), []engine.Task{task(i, time.Hour)})
	}
	moves := make([][]engine.Move, pending/batch)
	for i := range moves {
		for j := range batch {
			moves[i] = append(moves[i], engine.Move{Key: task(i*batch+j, 0).Key(), After: time.Hour + time.Duration(i)*time.Second})
		}
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		_, _ = e.Move(context.Background(), moves[n%len(moves)])
		n++
	}
	perTask(b)
}

// BenchmarkLease settles a batch and leases the next.
func BenchmarkLease(b *testing.B) {
	e, task := benchmark(b)
	tasks := make([]engine.Task, batch)
	var settle []engine.Outcome
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		b.StopTimer()
		for i := range tasks {
			tasks[i] = task(n, 0)
			n++
		}
		_, _ = e.Set(context.Background(), tasks)
		b.StartTimer()
		got, _ := e.Lease(context.Background(), engine.Ask{Topic: "orders", Node: "n", Settle: settle, Max: batch, Lease: time.Minute})
		settle = settle[:0]
		for _, leased := range got.Leased {
			settle = append(settle, engine.Outcome{Token: leased.Token, As: engine.Done})
		}
	}
	perTask(b)
}

// BenchmarkMemory reports the bytes of a pending task, its id of 17 bytes and its payload of 64
// included.
func BenchmarkMemory(b *testing.B) {
	const pending = 200_000
	for b.Loop() {
		e, task := benchmark(b)
		before := inUse()
		for i := range pending {
			_, _ = e.Set(context.Background(), []engine.Task{task(i, time.Hour)})
		}
		b.ReportMetric(float64(inUse()-before)/pending, "B/task")
		e.Close()
	}
}

func inUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
