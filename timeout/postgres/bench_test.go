package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
)

// BenchmarkSet is about tasks set in batches of 1000 by 4 goroutines.
func BenchmarkSet(b *testing.B) {
	engine := openTopic(b, timeout.Topic{Name: "bench"})
	batches := enginetest.Batches("bench", b.N, 1000, time.Now().Add(time.Hour))
	b.ReportAllocs()
	b.ResetTimer()
	enginetest.SetBatches(b, engine, batches, 4)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkExpire is about tasks that are all due: each call settles those of the one before.
func BenchmarkExpire(b *testing.B) {
	for _, workers := range []int{1, 4} {
		for _, most := range []int{256, 1000} {
			b.Run(fmt.Sprintf("workers=%d/max=%d", workers, most), func(b *testing.B) {
				engine := openTopic(b, timeout.Topic{Name: "bench"})
				enginetest.Fill(b, engine, "bench", b.N)
				b.ReportAllocs()
				b.ResetTimer()
				require.Equal(b, b.N, enginetest.Drain(b, engine, "bench", workers, most))
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			})
		}
	}
}
