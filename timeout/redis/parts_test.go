package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// setOn sets a task that is due at once in one of some slots of 16.
func setOn(t *testing.T, e *redis.Engine, slots map[int]bool) {
	t.Helper()
	for i := 0; ; i++ {
		if task := (engine.Task{ID: fmt.Sprint(i)}); slots[engine.Slot(task.ID, 16)] {
			set(t, e, task)
			return
		}
	}
}

// A server that fails fails alone, also if all servers are asked together.
func TestAServerThatFailsIsNoFailureOfTheOthers(t *testing.T) {
	t.Parallel()
	cluster, servers := startClusterOf(t, 3, "--cluster-require-full-coverage", "no")
	e := openEngine(t, servers[0], redis.Config{PollInterval: -1})
	require.Equal(t, []int{0}, e.Parts("orders", nil), "nobody knows yet")
	withTopic(t, e, engine.Topic{Slots: 16})
	victim, away := spare(t, cluster, e.Prefix())
	parts := e.Parts("orders", nil)
	require.Len(t, parts, 3)
	require.NotContains(t, parts, 0)
	var lost int
	for slot := range away {
		lost = e.Part(engine.Key{Topic: "orders", ID: inSlot(slot, 16)})
		require.Equal(t, []int{lost}, e.Parts("orders", []int{slot}))
	}
	leaseBatch(t, e, engine.Ask{Max: 1000}) // all slots are known now
	setOn(t, e, away)
	lives := inSlot(slices.IndexFunc(make([]bool, 16), func(bool) bool { return true }), 16)
	for slot := range 16 {
		if !away[slot] {
			lives = inSlot(slot, 16)
		}
	}
	set(t, e, engine.Task{ID: lives})
	victim.Kill(t)
	ask := engine.Ask{Topic: "orders", Node: "a", Lease: time.Minute, Max: 1000}
	batch, err := e.Lease(ctx, ask)
	require.ErrorIs(t, err, engine.ErrPartial)
	require.ErrorContains(t, err, victim.Addr)
	require.Len(t, batch.Leased, 1)
	require.Equal(t, lives, batch.Leased[0].ID)
	require.WithinRange(t, batch.Next, batch.Now, batch.Now.Add(time.Second))
	for _, ask.Part = range parts {
		batch, err := e.Lease(ctx, ask)
		if ask.Part == lost {
			require.Error(t, err)
			require.NotErrorIs(t, err, engine.ErrPartial)
		} else {
			require.NoError(t, err)
			require.WithinDuration(t, time.Now(), batch.Now, time.Minute)
		}
	}
	for _, one := range servers {
		if one.Addr != victim.Addr {
			one.Kill(t)
		}
	}
	ask.Part = 0
	_, err = e.Lease(ctx, ask)
	require.Error(t, err)
	require.NotErrorIs(t, err, engine.ErrPartial)
}

// A server that stops for moments leases in its own time, and each task runs once and long before the end of a
// lease.
func TestAServerOfAClusterThatStopsForMomentsLosesNoLease(t *testing.T) {
	t.Parallel()
	cluster, servers := startClusterOf(t, 3, "--cluster-require-full-coverage", "no")
	e := openEngine(t, servers[0], redis.Config{PollInterval: -1})
	withTopic(t, e, engine.Topic{Slots: 16, Lease: time.Hour})
	victim, _ := spare(t, cluster, e.Prefix())
	center, err := timeout.New(e, timeout.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	_, err = center.SetTopic(ctx, engine.Topic{Name: "orders", Lease: time.Hour})
	require.NoError(t, err)
	var tasks []engine.Task
	for i := range 1000 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i), After: time.Duration(i) * 4 * time.Millisecond})
	}
	_, err = center.SetAll(ctx, tasks)
	require.NoError(t, err)
	ran := &runs{late: make(map[string][]time.Duration)}
	require.NoError(t, center.Handle("orders", ran.handle))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- center.Run(running) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended); require.NoError(t, center.Close()) })
	for range 8 {
		victim.Pause(t)
		time.Sleep(300 * time.Millisecond)
		victim.Continue(t)
		time.Sleep(100 * time.Millisecond)
	}
	require.Eventually(t, func() bool {
		_, all := ran.of(tasks)
		return all
	}, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		counts, err := e.Count(ctx, "orders")
		return err == nil && counts.Pending+counts.Running == 0
	}, time.Minute, 100*time.Millisecond, "all are settled")
	late, _ := ran.of(tasks)
	require.Len(t, late, len(tasks), "each ran once")
}

// There is a long way to all servers.
func TestAClusterOfSlowServersRunsEachTaskOnce(t *testing.T) {
	t.Parallel()
	cluster := testserver.RedisCluster(t, 3, 0)
	e := openFar(t, cluster, func(string) time.Duration { return 100 * time.Millisecond })
	center, err := timeout.New(e, timeout.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ran := &runs{late: make(map[string][]time.Duration)}
	var tasks []engine.Task
	for _, topic := range []string{"orders", "bills"} {
		_, err = center.SetTopic(ctx, engine.Topic{Name: topic, Slots: 16, Lease: time.Hour})
		require.NoError(t, err)
		require.NoError(t, center.Handle(topic, ran.handle))
		for i := range 500 {
			tasks = append(tasks, engine.Task{Topic: topic, ID: fmt.Sprint(topic, i), After: time.Duration(i) * 4 * time.Millisecond})
		}
	}
	_, err = center.SetAll(ctx, tasks)
	require.NoError(t, err)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- center.Run(running) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended); require.NoError(t, center.Close()) })
	require.Eventually(t, func() bool {
		_, all := ran.of(tasks)
		return all
	}, time.Minute, 10*time.Millisecond)
	for _, topic := range []string{"orders", "bills"} {
		require.Eventually(t, func() bool {
			counts, err := e.Count(ctx, topic)
			return err == nil && counts.Pending+counts.Running == 0
		}, time.Minute, 100*time.Millisecond, "all are settled")
	}
	late, _ := ran.of(tasks)
	require.Len(t, late, len(tasks), "each ran once")
	t.Logf("the latest was %v late", slices.Max(late))
}

// A worker may have room for one task again and again, and more to do on the others. A server far from these has its turn
// all the same, with tasks that have waited for longer.
func TestAServerFartherAwayThanTheOthersHasItsTurn(t *testing.T) {
	t.Parallel()
	cluster := testserver.RedisCluster(t, 3, 0)
	var victim atomic.Value
	e := openFar(t, cluster, func(addr string) time.Duration {
		if addr == victim.Load() {
			return 300 * time.Millisecond
		}
		return 0
	})
	withTopic(t, e, engine.Topic{Slots: 16, Lease: time.Hour, Concurrency: 1})
	server, slots := spare(t, cluster, e.Prefix())
	victim.Store(server.Addr)
	tasks := make([]engine.Task, 10_000)
	for i := range tasks {
		tasks[i] = engine.Task{Topic: "orders", ID: fmt.Sprint(i)}
	}
	_, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	center, err := timeout.New(e, timeout.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	var far, all atomic.Int64
	require.NoError(t, center.Handle("orders", func(_ context.Context, task engine.Task) error {
		all.Add(1)
		if slots[engine.Slot(task.ID, 16)] {
			far.Add(1)
		}
		time.Sleep(20 * time.Millisecond)
		return nil
	}))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- center.Run(running) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended); require.NoError(t, center.Close()) })
	require.Eventually(t, func() bool { return far.Load() >= 5 }, time.Minute, time.Millisecond)
	t.Logf("%d of %d tasks were far", far.Load(), all.Load())
	require.Less(t, all.Load(), int64(1000), "they have waited for few of the others")
}
