package timeout_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// many sets n tasks of a topic, due now.
func (r *rig) backlog(topic string, n int) {
	r.t.Helper()
	tasks := make([]timeout.Task, n)
	for i := range tasks {
		tasks[i] = timeout.Task{Topic: topic, ID: fmt.Sprint(i)}
	}
	_, err := r.SetAll(r.t.Context(), tasks)
	require.NoError(r.t, err)
}

func (r *rig) topic(topic timeout.Topic, handler timeout.Handler) {
	r.t.Helper()
	_, err := r.SetTopic(r.t.Context(), topic)
	require.NoError(r.t, err)
	require.NoError(r.t, r.Handle(topic.Name, handler))
}

func (r *rig) statsOf(topic string) timeout.Stats {
	for _, s := range r.Stats() {
		if s.Topic == topic {
			return s
		}
	}
	return timeout.Stats{}
}

func TestANodeRunsNoMoreThanItsConcurrencyAndByPriority(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Concurrency: 10})
		all := new(gauge)
		ends := map[string]time.Duration{"high": 10 * time.Millisecond, "middle": 100 * time.Millisecond, "low": 10 * time.Millisecond}
		for name, priority := range map[string]int{"high": 6, "middle": 3, "low": 0} {
			r.topic(timeout.Topic{Name: name, Priority: priority}, all.handler(ends[name]))
		}
		pass(time.Second)
		r.backlog("low", 3000)
		pass(time.Second)
		most, in := all.take()
		require.Equal(t, 10, most, "one topic may use all places")
		require.InDelta(t, 1000, in, 150)

		r.backlog("high", 20_000)
		r.backlog("middle", 20_000)
		before := r.statsOf("low").Done
		pass(10 * time.Second)
		most, _ = all.take()
		require.Equal(t, 10, most)
		require.InDelta(t, 6*1000, r.statsOf("high").Done, 900, "six places for ten seconds")
		require.InDelta(t, 3*100, r.statsOf("middle").Done, 45)
		require.InDelta(t, 1*1000, r.statsOf("low").Done-before, 150)
		for _, s := range r.Stats() {
			require.Zero(t, s.Lost+s.Again+s.Early, s.Topic)
		}
	})
}

// Handlers of another topic have all places for a long time.
func TestATopicThatWaitsForAPlaceLeasesOneTaskAndHandsItBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		r := rigOn(t, store, timeout.Config{Node: "a", Concurrency: 4})
		free := make(chan struct{})
		end := sync.OnceFunc(func() { close(free) })
		t.Cleanup(end)
		r.topic(timeout.Topic{Name: "slow"}, func(context.Context, timeout.Task) error { <-free; return nil })
		var mu sync.Mutex
		ran := map[string]int{}
		quick := func(_ context.Context, task timeout.Task) error {
			mu.Lock()
			defer mu.Unlock()
			ran[task.ID]++
			return nil
		}
		r.topic(timeout.Topic{Name: "quick", Lease: time.Second, Priority: 1000}, quick)
		pass(time.Second)
		r.backlog("slow", 4)
		pass(time.Second)
		r.backlog("quick", 100)
		for range 10 {
			pass(700 * time.Millisecond)
			require.LessOrEqual(t, r.statsOf("quick").Queued, 1)
		}
		require.Zero(t, r.statsOf("quick").Lost)
		require.NotZero(t, r.statsOf("quick").Returned)

		// A node with room runs them all, also those of the slots of the first.
		b := rigOn(t, store, timeout.Config{Node: "b", Concurrency: 4})
		require.NoError(t, b.Handle("quick", quick))
		pass(time.Minute)
		require.Len(t, ran, 100)

		// The place that is free first goes to the topic that waits.
		r.backlog("slow", 100)
		pass(time.Second)
		clear(ran)
		r.backlog("quick", 100)
		end()
		pass(time.Second)
		require.Len(t, ran, 100)
		for id, n := range ran {
			require.Equal(t, 1, n, id)
		}
	})
}

func TestANodeStopsWhileTopicsWaitForItsPlaces(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Concurrency: 1, Grace: time.Minute})
		g := new(gauge)
		for i := range 5 {
			r.topic(timeout.Topic{Name: fmt.Sprint("t", i)}, g.handler(10*time.Second))
		}
		pass(time.Second)
		for i := range 5 {
			r.backlog(fmt.Sprint("t", i), 10)
		}
		pass(25 * time.Second)
		require.NoError(t, r.stop())
		most, in := g.take()
		require.Equal(t, 1, most)
		require.Equal(t, 3, in)
	})
}
