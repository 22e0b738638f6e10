package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// runs are the runs of tasks, by id.
type runs struct {
	mu   sync.Mutex
	late map[string][]time.Duration
}

func (r *runs) handle(_ context.Context, task engine.Task) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late[task.ID] = append(r.late[task.ID], time.Since(task.Due))
	return nil
}

// of returns how late the tasks ran, if all have run.
func (r *runs) of(tasks []engine.Task) (late []time.Duration, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, task := range tasks {
		if len(r.late[task.ID]) == 0 {
			return nil, false
		}
		late = append(late, r.late[task.ID]...)
	}
	return late, true
}

// A worker asks each server by itself. It does not wait for one that hangs.
func TestAServerOfAClusterThatHangsMakesNoTaskOfTheOthersLate(t *testing.T) {
	t.Parallel()
	const patience = 10 * time.Second // of the client with a server
	cluster := testserver.RedisCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	at := server{cluster.Nodes[0]}
	at.URL += "?read_timeout=" + patience.String()
	e := openEngine(t, at, redis.Config{})
	center, err := timeout.New(e, timeout.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	_, err = center.SetTopic(ctx, engine.Topic{Name: "orders", Slots: 16, Lease: 3 * time.Second})
	require.NoError(t, err)
	victim, away := spare(t, cluster, e.Prefix())
	var own, others []engine.Task
	for i := 0; len(others) < 300; i++ {
		task := engine.Task{Topic: "orders", ID: fmt.Sprint(i), After: time.Second + time.Duration(len(others))*60*time.Millisecond}
		if away[engine.Slot(task.ID, 16)] {
			own = append(own, task)
		} else {
			others = append(others, task)
		}
	}
	_, err = center.SetAll(ctx, slices.Concat(own, others))
	require.NoError(t, err)
	ran := &runs{late: make(map[string][]time.Duration)}
	require.NoError(t, center.Handle("orders", ran.handle))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- center.Run(running) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended); require.NoError(t, center.Close()) })

	require.Eventually(t, func() bool {
		_, begun := ran.of(others[:1])
		return begun
	}, time.Minute, time.Millisecond)
	victim.Pause(t)
	var late []time.Duration
	require.Eventually(t, func() (all bool) {
		late, all = ran.of(others)
		return all
	}, time.Minute, 10*time.Millisecond)
	t.Logf("half of them were at most %v late, 99 %% %v and all %v", percentile(late, 0.5), percentile(late, 0.99), slices.Max(late))
	require.Less(t, slices.Max(late), patience/2)

	victim.Continue(t)
	began := time.Now()
	require.Eventually(t, func() bool {
		_, all := ran.of(own)
		return all
	}, time.Minute, 10*time.Millisecond)
	t.Logf("the rest ran within %v", time.Since(began))
	late, _ = ran.of(slices.Concat(own, others))
	require.Len(t, late, len(own)+len(others), "each ran once")
}

// A topic has grown. A hanging server keeps only its own tasks.
func TestWhileATopicGrowsAServerThatHangsMakesNoTaskOfTheOthersLate(t *testing.T) {
	t.Parallel()
	const patience = 2 * time.Second
	cluster := testserver.RedisCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	at := server{cluster.Nodes[0]}
	at.URL += "?read_timeout=" + patience.String()
	e := openEngine(t, at, redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 16})
	victim, away := spare(t, cluster, e.Prefix())
	var tasks []engine.Task
	for i := range 300 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i), After: time.Second})
	}
	_, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	_, err = e.SetTopic(ctx, engine.Topic{Name: "orders", Slots: 32, Lease: 3 * time.Second}, false)
	require.NoError(t, err)
	lives := func(task engine.Task) bool { return !away[engine.Slot(task.ID, 16)] }
	others := slices.DeleteFunc(slices.Clone(tasks), func(task engine.Task) bool { return !lives(task) })
	require.NotEmpty(t, others)
	require.Less(t, len(others), len(tasks))

	center, err := timeout.New(e, timeout.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ran := &runs{late: make(map[string][]time.Duration)}
	require.NoError(t, center.Handle("orders", ran.handle))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	victim.Pause(t)
	go func() { ended <- center.Run(running) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended); require.NoError(t, center.Close()) })
	var late []time.Duration
	require.Eventually(t, func() (all bool) {
		late, all = ran.of(others)
		return all
	}, time.Minute, 10*time.Millisecond)
	t.Logf("all %d of %d were at most %v late", len(others), len(tasks), slices.Max(late))
	victim.Continue(t)
	require.Eventually(t, func() bool {
		_, all := ran.of(tasks)
		return all
	}, time.Minute, 10*time.Millisecond)
	late, _ = ran.of(tasks)
	require.Len(t, late, len(tasks), "each ran once")
}

// Ready waits for no server that hangs, however long the client would.
func TestReadyDoesNotWaitForAServerThatHangs(t *testing.T) {
	t.Parallel()
	cluster := testserver.RedisCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	at := server{cluster.Nodes[0]}
	at.URL += "?read_timeout=10m"
	e := openEngine(t, at, redis.Config{})
	require.NoError(t, e.Ready(ctx))
	cluster.Nodes[2].Pause(t)
	for range 3 {
		inTime, stop := context.WithTimeout(ctx, time.Minute)
		require.NoError(t, e.Ready(inTime))
		require.NoError(t, inTime.Err())
		stop()
	}
	cluster.Nodes[2].Continue(t)
	require.NoError(t, e.Close())

	// Alone, it is waited for as long as ctx says.
	alone := startServer(t)
	alone.URL += "?read_timeout=10m"
	e = openEngine(t, alone, redis.Config{})
	alone.Pause(t)
	patient, stop := context.WithCancel(ctx)
	time.AfterFunc(100*time.Millisecond, stop)
	require.ErrorIs(t, e.Ready(patient), context.Canceled)
	alone.Continue(t)
	require.NoError(t, e.Close())
}

// The hash of the topics is read with single commands. They wait for a hanging server once, as scripts do.
func TestTheServerOfTheTopicsHangsAndIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	cluster, servers := startClusterOf(t, 3, "--cluster-require-full-coverage", "no")
	at := server{cluster.Nodes[0]}
	at.URL += "?read_timeout=10m"
	e := openEngine(t, at, redis.Config{})
	withTopic(t, e, engine.Topic{})
	home, _ := with(t, servers, e.Prefix()+":{topics}:t")
	for name, do := range map[string]func(context.Context, *redis.Engine) error{
		"Get":    func(ctx context.Context, e *redis.Engine) error { return err1(e.Get(ctx, []engine.Key{key("1")})) },
		"Topics": func(ctx context.Context, e *redis.Engine) error { return err1(e.Topics(ctx)) },
		"Now":    func(ctx context.Context, e *redis.Engine) error { return err1(e.Now(ctx)) },
	} {
		fresh := openEngine(t, at, redis.Config{Prefix: e.Prefix()})
		require.NoError(t, fresh.Ready(ctx))
		home.Pause(t)
		for _, patience := range []time.Duration{time.Second, time.Minute, time.Minute} {
			inTime, stop := context.WithTimeout(ctx, patience)
			require.Error(t, do(inTime, fresh), name)
			if patience == time.Minute {
				require.NoError(t, inTime.Err(), name)
			}
			stop()
		}
		home.Continue(t)
		require.Eventually(t, func() bool { return do(ctx, fresh) == nil }, time.Minute, 10*time.Millisecond)
	}
}
