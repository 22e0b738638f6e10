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
)

// Clock asks for what must be so whatever the clock of a store does. The engines are two on one
// store, which has nothing else in it, and set sets its clock ahead of this machine's or behind
// it: so these nodes' clocks are wrong, seen from there.
func Clock(t *testing.T, engines []timeout.Engine, set func(ahead time.Duration)) {
	c := &clockwork{t: t, engine: engines[0], ran: make(map[string]int)}
	for i, engine := range engines {
		c.serve(engine, fmt.Sprint("node-", i))
	}
	for _, ahead := range []time.Duration{0, 5 * time.Second, -5 * time.Second, time.Minute, -time.Minute} {
		set(ahead)
		name := fmt.Sprint("at ", ahead, " ")
		c.set(name, 20, 0)
		c.await("orders", name, 20, "nothing waits for the clock")
	}

	set(0)
	// What waits while the clock is stepped waits for its time by that clock.
	c.set("kept ", 20, time.Second)
	set(-2 * time.Second)
	c.await("orders", "kept ", 20, "an action time stays what it is")
	c.set("brought ", 20, time.Hour)
	set(time.Hour)
	c.await("orders", "brought ", 20, "an hour has passed there")

	// What had been leased, by a node that was there, is done when the lease has ended, as if
	// the clock had not been stepped back.
	c.steal("orphans", "orphan ", 20)
	set(0)
	for i, centre := range c.centres {
		require.NoError(t, centre.Handle("orphans", c.handler(engines[i])))
	}
	c.await("orphans", "orphan ", 20, "a lease ends in its time")
	require.Eventually(t, func() bool {
		view := c.centres[0].View()
		return !slices.ContainsFunc(view.Nodes, func(n timeout.Node) bool { return n.Name == "dead" }) && len(view.Nodes) == len(engines)
	}, patient, 20*time.Millisecond, "who is dead is no member for an hour")
	c.judge()
}

// clockwork is a few centres and what they have done.
type clockwork struct {
	t       *testing.T
	engine  timeout.Engine
	centres []*timeout.Center

	mu    sync.Mutex
	ran   map[string]int
	early []string
}

func (c *clockwork) serve(engine timeout.Engine, name string) {
	centre, err := timeout.New(engine, timeout.Config{
		Node: name, TTL: time.Second, Poll: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Topic: timeout.Topic{Lease: 10 * time.Second},
	})
	require.NoError(c.t, err)
	require.NoError(c.t, centre.Handle("orders", c.handler(engine)))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- centre.Run(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		require.NoError(c.t, <-ended)
		require.NoError(c.t, centre.Close())
	})
	c.centres = append(c.centres, centre)
}

// set sets tasks by all centres.
func (c *clockwork) set(name string, n int, after time.Duration) {
	c.t.Helper()
	for i := range n {
		_, err := c.centres[i%len(c.centres)].Set(c.t.Context(), timeout.Task{
			Topic: "orders", ID: fmt.Sprint(name, i), After: after + time.Duration(i)*10*time.Millisecond,
		})
		require.NoError(c.t, err)
	}
}

// await waits until tasks have run and are settled: a step of the clock ends leases.
func (c *clockwork) await(topic, name string, n int, why string) {
	c.t.Helper()
	keys := make([]timeout.Key, n)
	for i := range keys {
		keys[i] = timeout.Key{Topic: topic, ID: fmt.Sprint(name, i)}
	}
	require.Eventually(c.t, func() bool {
		tasks, err := c.engine.Get(c.t.Context(), keys)
		require.NoError(c.t, err)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, task := range tasks {
			if c.ran[task.ID] == 0 || task.State != timeout.None {
				return false
			}
		}
		return true
	}, patient, 10*time.Millisecond, "%s: %s", name, why)
}

// handler writes down what runs.
func (c *clockwork) handler(engine timeout.Engine) timeout.Handler {
	return func(ctx context.Context, task timeout.Task) error {
		now, err := engine.Now(ctx)
		if err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ran[task.ID]++
		if now.Before(task.Due) && task.Attempts == 1 { // a later one's time had come before the step
			c.early = append(c.early, task.ID)
		}
		return nil
	}
}

// steal sets and leases n tasks as a node that is a member, and dies then.
func (c *clockwork) steal(topic, name string, n int) {
	ctx := c.t.Context()
	_, err := c.engine.SetTopic(ctx, timeout.Topic{Name: topic}, true)
	require.NoError(c.t, err)
	_, err = c.engine.Beat(ctx, timeout.Node{Name: "dead"}, time.Second)
	require.NoError(c.t, err)
	var tasks []timeout.Task
	for i := range n {
		tasks = append(tasks, timeout.Task{Topic: topic, ID: fmt.Sprint(name, i)})
	}
	_, err = c.engine.Set(ctx, tasks)
	require.NoError(c.t, err)
	require.Eventually(c.t, func() bool {
		batch, err := c.engine.Expire(ctx, timeout.Ask{Topic: topic, Node: "dead", Max: n, Lease: time.Second})
		require.NoError(c.t, err)
		n -= len(batch.Leased)
		return n == 0
	}, patient, time.Millisecond)
}

// judge looks at all that has run.
func (c *clockwork) judge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Empty(c.t, c.early)
	for id, n := range c.ran {
		require.Equal(c.t, 1, n, id)
	}
}
