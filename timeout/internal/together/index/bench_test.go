//go:build unix

package index_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/index"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

// BenchmarkQueueInMemory compares a table with a queue in memory in front of it and one without. It
// reports the median lateness, and the processor time of this process, which is not the server's:
// go test -run xxx -bench QueueInMemory -benchtime 1x -count 3 -timeout 20m
func BenchmarkQueueInMemory(b *testing.B) {
	for _, load := range []struct {
		name   string
		topics int
		set    func(b *testing.B, center *timeout.Center) (tasks int)
	}{{"steady", 1, steady}, {"burst", 1, burst}, {"idle", 256, idle}} {
		for _, table := range []string{"sqlite", "postgres"} {
			for _, queue := range []bool{false, true} {
				b.Run(fmt.Sprintf("load=%s/table=%s/queue=%v", load.name, table, queue), func(b *testing.B) {
					for b.Loop() {
						e := benchTable(b, table)
						if queue {
							e = benchQueue(b, e)
						}
						benchCenter(b, e, load.topics, load.set)
						require.NoError(b, e.Close())
					}
				})
			}
		}
	}
}

func benchTable(b *testing.B, kind string) (e engine.Engine) {
	var err error
	if kind == "sqlite" {
		e, err = sqlite.Open(filepath.Join(b.TempDir(), "tasks.db"), sqlite.Config{})
	} else {
		e, err = postgres.Open(b.Context(), testserver.SharedPostgres(b).URL, postgres.Config{Schema: fmt.Sprint("bench_", time.Now().UnixNano())})
	}
	require.NoError(b, err)
	return e
}

func benchQueue(b *testing.B, table engine.Engine) engine.Engine {
	wheel, err := memory.New(memory.Config{})
	require.NoError(b, err)
	e, err := index.New(table.(engine.Primary), wheel, index.Config{})
	require.NoError(b, err)
	return e
}

// benchCenter runs a center while set sets tasks, and until they are done.
func benchCenter(b *testing.B, e engine.Engine, topics int, set func(*testing.B, *timeout.Center) int) {
	center, err := timeout.New(e, timeout.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	late := make(chan time.Duration, 1<<16)
	for i := range topics {
		_, err := center.SetTopic(b.Context(), timeout.Topic{Name: fmt.Sprint("t", i), Concurrency: 256})
		require.NoError(b, err)
		require.NoError(b, center.Handle(fmt.Sprint("t", i), func(_ context.Context, task timeout.Task) error {
			late <- time.Since(task.Due)
			return nil
		}))
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- center.Run(ctx) }()
	time.Sleep(6 * time.Second)
	used := processor(b)
	all := make([]time.Duration, set(b, center))
	for i := range all {
		all[i] = <-late
	}
	b.ReportMetric(float64((processor(b) - used).Milliseconds()), "cpu-ms")
	if slices.Sort(all); len(all) > 0 {
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	}
	stop()
	require.NoError(b, <-ended)
	require.NoError(b, center.Close())
}

func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// steady sets tasks one after another, each due two seconds later.
func steady(b *testing.B, center *timeout.Center) (tasks int) {
	for ; tasks < 1500; tasks++ {
		_, err := center.Set(b.Context(), timeout.Task{Topic: "t0", ID: fmt.Sprint(tasks), After: 2 * time.Second})
		require.NoError(b, err)
		time.Sleep(2 * time.Millisecond)
	}
	return tasks
}

// burst sets tasks due at the same instant.
func burst(b *testing.B, center *timeout.Center) (tasks int) {
	due := time.Now().Add(3 * time.Second)
	for tasks < 20_000 {
		var batch []timeout.Task
		for range 1000 {
			batch = append(batch, timeout.Task{Topic: "t0", ID: fmt.Sprint(tasks), Due: due})
			tasks++
		}
		_, err := center.SetAll(b.Context(), batch)
		require.NoError(b, err)
	}
	return tasks
}

// idle sets nothing for ten seconds.
func idle(*testing.B, *timeout.Center) int {
	time.Sleep(10 * time.Second)
	return 0
}
