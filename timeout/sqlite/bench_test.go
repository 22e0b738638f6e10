package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

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
			batches := enginetest.Batches("bench", b.N, batch, time.Now().Add(time.Hour))
			b.ReportAllocs()
			b.ResetTimer()
			enginetest.SetBatches(b, engine, batches, 1)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// BenchmarkExpire is about tasks that are all due: each call settles those of the one before.
func BenchmarkExpire(b *testing.B) {
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
