package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// BenchmarkSet is about tasks set in batches of 1000 by 4 goroutines.
func BenchmarkSet(b *testing.B) {
	e := openTopic(b, engine.Topic{Name: "bench"})
	batches := enginetest.Batches("bench", b.N, 1000, time.Now().Add(time.Hour))
	b.ReportAllocs()
	b.ResetTimer()
	enginetest.SetBatches(b, e, batches, 4)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkLease leases due tasks. Each call settles the tasks of the call before.
func BenchmarkLease(b *testing.B) {
	for _, workers := range []int{1, 4} {
		for _, most := range []int{256, 1000} {
			b.Run(fmt.Sprintf("workers=%d/max=%d", workers, most), func(b *testing.B) {
				e := openTopic(b, engine.Topic{Name: "bench"})
				enginetest.Fill(b, e, "bench", b.N)
				b.ReportAllocs()
				b.ResetTimer()
				require.Equal(b, b.N, enginetest.Drain(b, e, "bench", workers, most))
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			})
		}
	}
}

// BenchmarkMove has 10,000 tasks. Two clients move them over and over, 64 at a time, each time to a
// later time, as heartbeats do: in the order of the sets, or in a random one.
func BenchmarkMove(b *testing.B) {
	const tasks = 10_000
	for _, order := range []string{"set", "random"} {
		b.Run("order="+order, func(b *testing.B) {
			e := openTopic(b, engine.Topic{Name: "bench"})
			start := time.Now().Add(time.Hour)
			batches := enginetest.Batches("bench", tasks, 1000, start)
			enginetest.SetBatches(b, e, batches, 1)
			keys := make([]engine.Key, 0, tasks)
			for _, task := range slices.Concat(batches...) {
				keys = append(keys, task.Key())
			}
			if order == "random" {
				rand.Shuffle(tasks, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			}
			before := measure(b, newPool(b), e)
			b.ReportAllocs()
			b.ResetTimer()
			moveAll(b, e, keys, start)
			b.StopTimer()
			measure(b, newPool(b), e).report(b, before)
		})
	}
}

// moveAll moves tasks, one after the other and again, b.N times.
func moveAll(b *testing.B, e engine.Engine, keys []engine.Key, start time.Time) {
	const clients, batch = 2, 64
	var next atomic.Int64
	var all errgroup.Group
	for range clients {
		all.Go(func() error {
			for {
				from := int(next.Add(batch)) - batch
				if from >= b.N {
					return nil
				}
				moves := make([]engine.Move, min(batch, b.N-from))
				for i := range moves {
					moves[i] = engine.Move{Key: keys[(from+i)%len(keys)], Due: start.Add(time.Duration(from+i) * time.Millisecond)}
				}
				if _, err := e.Move(b.Context(), moves); err != nil {
					return err
				}
			}
		})
	}
	require.NoError(b, all.Wait())
}

// measured is what the server has written and keeps, in bytes, and what became of its updates.
type measured struct{ wal, updates, hot, table, indexes int64 }

func measure(b *testing.B, pool *pgxpool.Pool, e *postgres.Engine) (m measured) {
	b.Helper()
	time.Sleep(time.Second) // a backend tells what it did once a second at most
	require.NoError(b, pool.QueryRow(b.Context(), `SELECT (pg_current_wal_lsn() - '0/0')::bigint, n_tup_upd, n_tup_hot_upd, pg_table_size(relid), pg_indexes_size(relid)
		FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'hw_tasks'`, e.Schema()).Scan(&m.wal, &m.updates, &m.hot, &m.table, &m.indexes))
	return m
}

// report reports the differences from before, and the sizes.
func (m measured) report(b *testing.B, before measured) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "moves/s")
	b.ReportMetric(float64(m.wal-before.wal)/float64(b.N), "WAL-B/move")
	b.ReportMetric(100*float64(m.hot-before.hot)/float64(max(m.updates-before.updates, 1)), "%HOT")
	b.ReportMetric(float64(m.table)/float64(before.table), "table-growth")
	b.ReportMetric(float64(m.indexes)/float64(before.indexes), "index-growth")
	b.ReportMetric(float64(m.table+m.indexes)/(1<<20), "MiB")
}

// BenchmarkSetAgain is about existing tasks, set anew in batches of 64 by 2 goroutines.
func BenchmarkSetAgain(b *testing.B) {
	const tasks = 10_000
	e := openTopic(b, engine.Topic{Name: "bench"})
	first := slices.Concat(enginetest.Batches("bench", tasks, 1000, time.Now().Add(time.Hour))...)
	enginetest.SetBatches(b, e, [][]engine.Task{first}, 1)
	batches := make([][]engine.Task, 0, b.N/64+1)
	for from := 0; from < b.N; from += 64 {
		at := from % (tasks - 64)
		batches = append(batches, first[at:at+min(64, b.N-from)])
	}
	b.ReportAllocs()
	b.ResetTimer()
	enginetest.SetBatches(b, e, batches, 2)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
