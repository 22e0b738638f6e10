package enginetest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Clock tests the promises kept under any clock of the store. The two engines share
// a store, and nothing else uses it. set sets the store's clock ahead of this machine's or
// behind it, so the nodes' clocks are wrong, seen from the store.
func Clock(t *testing.T, engines []engine.Engine, set func(ahead time.Duration)) {
	c := &clockwork{t: t, engine: engines[0], ran: make(map[string]int)}
	for i, e := range engines {
		c.serve(e, fmt.Sprint("node-", i))
	}
	for _, ahead := range []time.Duration{0, 5 * time.Second, -5 * time.Second, time.Minute, -time.Minute} {
		set(ahead)
		name := fmt.Sprint("at ", ahead, " ")
		c.set(name, 20, 0)
		c.await("orders", name, 20, "nothing waits for the clock")
	}

	set(0)
	// If the clock is stepped, a waiting task still waits for its time by the stepped clock.
	c.set("kept ", 20, 5*time.Second) // longer than the step takes on a busy machine
	set(-2 * time.Second)
	c.await("orders", "kept ", 20, "an action time stays what it is")
	c.set("brought ", 20, time.Hour)
	set(time.Hour)
	c.await("orders", "brought ", 20, "an hour has passed there")

	// The lease of a dead node's task ends as if the clock had not been stepped back.
	c.steal("orphans", "orphan ", 20)
	set(0)
	for i, center := range c.centers {
		require.NoError(t, center.Handle("orphans", c.handler(engines[i])))
	}
	c.await("orphans", "orphan ", 20, "a lease ends in its time")
	require.Eventually(t, func() bool {
		view := c.centers[0].View()
		return !slices.ContainsFunc(view.Nodes, func(n engine.Node) bool { return n.Name == "dead" }) && len(view.Nodes) == len(engines)
	}, patient, 20*time.Millisecond, "who is dead is no member for an hour")
	c.judge()
}

// clockwork is a few centers and the record of their runs.
type clockwork struct {
	t       *testing.T
	engine  engine.Engine
	centers []*timeout.Center

	mu    sync.Mutex
	ran   map[string]int
	early []string
}

func (c *clockwork) serve(e engine.Engine, name string) {
	center, err := timeout.New(e, timeout.Config{
		Node: name, TTL: time.Second, Poll: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Topic: engine.Topic{Lease: 10 * time.Second},
	})
	require.NoError(c.t, err)
	require.NoError(c.t, center.Handle("orders", c.handler(e)))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- center.Run(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		require.NoError(c.t, <-ended)
		require.NoError(c.t, center.Close())
	})
	c.centers = append(c.centers, center)
}

// set sets tasks by all centers.
func (c *clockwork) set(name string, n int, after time.Duration) {
	c.t.Helper()
	for i := range n {
		_, err := c.centers[i%len(c.centers)].Set(c.t.Context(), engine.Task{
			Topic: "orders", ID: fmt.Sprint(name, i), After: after + time.Duration(i)*10*time.Millisecond,
		})
		require.NoError(c.t, err)
	}
}

// await waits until tasks have run and are settled: a step of the clock ends leases.
func (c *clockwork) await(topic, name string, n int, why string) {
	c.t.Helper()
	keys := make([]engine.Key, n)
	for i := range keys {
		keys[i] = engine.Key{Topic: topic, ID: fmt.Sprint(name, i)}
	}
	require.Eventually(c.t, func() bool {
		tasks, err := c.engine.Get(c.t.Context(), keys)
		require.NoError(c.t, err)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, task := range tasks {
			if c.ran[task.ID] == 0 || task.State != engine.None {
				return false
			}
		}
		return true
	}, patient, 10*time.Millisecond, "%s: %s", name, why)
}

// handler records each run.
func (c *clockwork) handler(e engine.Engine) timeout.Handler {
	return func(ctx context.Context, task engine.Task) error {
		now, err := e.Now(ctx)
		if err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ran[task.ID]++
		if now.Before(task.Due) && task.Attempts == 1 { // the time of a later attempt had come before the step
			c.early = append(c.early, task.ID)
		}
		return nil
	}
}

// steal sets and leases n tasks as a member, and the member then dies.
func (c *clockwork) steal(topic, name string, n int) {
	ctx := c.t.Context()
	_, err := c.engine.SetTopic(ctx, engine.Topic{Name: topic}, true)
	require.NoError(c.t, err)
	_, err = c.engine.Heartbeat(ctx, engine.Node{Name: "dead"}, time.Second)
	require.NoError(c.t, err)
	var tasks []engine.Task
	for i := range n {
		tasks = append(tasks, engine.Task{Topic: topic, ID: fmt.Sprint(name, i)})
	}
	_, err = c.engine.Set(ctx, tasks)
	require.NoError(c.t, err)
	require.Eventually(c.t, func() bool {
		batch, err := c.engine.Lease(ctx, engine.Ask{Topic: topic, Node: "dead", Max: n, Lease: time.Second})
		require.NoError(c.t, err)
		n -= len(batch.Leased)
		return n == 0
	}, patient, time.Millisecond)
}

// judge checks all recorded runs.
func (c *clockwork) judge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Empty(c.t, c.early)
	for id, n := range c.ran {
		require.Equal(c.t, 1, n, id)
	}
}
