package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// BenchmarkTell has all sessions of a dead node end at the same time. Another node tells their ends:
// to a function with an immediate return, and to one with a write to a database.
func BenchmarkTell(b *testing.B) {
	for _, work := range []time.Duration{0, time.Millisecond} {
		b.Run(fmt.Sprintf("work=%v", work), func(b *testing.B) { benchTell(b, work) })
	}
}

func benchTell(b *testing.B, work time.Duration) {
	const count = 50_000
	server := testserver.Redis(b)
	client := connect(b, server)
	var ends, processed float64
	for b.Loop() {
		var told atomic.Int64
		var first atomic.Pointer[time.Time]
		cfg := Config{
			Prefix: prefix(), Node: "alive", Lease: 6 * time.Second, MaxExpire: -1,
			OnOffline: func(context.Context, Offline) error {
				now := time.Now()
				first.CompareAndSwap(nil, &now)
				time.Sleep(work)
				told.Add(1)
				return nil
			},
		}
		n, err := Open(ctx, server.URL, cfg)
		require.NoError(b, err)
		cfg.Node = "dead"
		s := openStore(b, server.URL, cfg, incarnation{1})
		for claims := range slices.Chunk(registerMany(b, s, count), renewBatch) { // all at once
			_, err := s.extend(ctx, claims)
			require.NoError(b, err)
		}
		before := processor(b, client)
		eventually(b, func() bool { return told.Load() >= count }, "all are told")
		ends += count / time.Since(*first.Load()).Seconds()
		processed += (processor(b, client) - before) * 1e6 / count
		require.EqualValues(b, count, told.Load())
		require.NoError(b, n.Close())
		require.NoError(b, s.close())
	}
	b.ReportMetric(ends/float64(b.N), "ends/s")
	b.ReportMetric(processed/float64(b.N), "redis-µs/end")
}
