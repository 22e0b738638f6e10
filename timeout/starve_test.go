package timeout_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// The tests below are of tasks that other tasks kept waiting: hung, lost or given up.

// countedLeases counts calls.
type countedLeases struct {
	*memory.Engine
	calls atomic.Int64
}

func (c *countedLeases) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	c.calls.Add(1)
	time.Sleep(time.Millisecond)
	return c.Engine.Lease(ctx, ask)
}

// All handlers of a topic take longer than a lease. Then it gets more places.
func TestMorePlacesWakeANodeWhoseHandlersHang(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Concurrency: 1, Lease: time.Second, Timeout: time.Hour}})
		var begun atomic.Int64
		require.NoError(t, r.Handle("orders", func(ctx context.Context, _ timeout.Task) error {
			begun.Add(1)
			select {
			case <-time.After(30 * time.Minute):
			case <-ctx.Done():
			}
			return nil
		}))
		pass(time.Second)
		for i := range 10 {
			r.set(fmt.Sprint(i), 0)
		}
		pass(time.Minute)
		require.EqualValues(t, 1, begun.Load())
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Concurrency: 10, Lease: time.Second, Timeout: time.Hour})
		require.NoError(t, err)
		pass(10 * time.Minute)
		require.EqualValues(t, 10, begun.Load())
	})
}

// Another node dies, and this one gets its places.
func TestPlacesOfADeadNodeWakeANodeWhoseHandlersHang(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Close() })
		topic := timeout.Topic{Slots: 8, GlobalConcurrency: 8, Lease: time.Second, Timeout: time.Hour}
		var begun atomic.Int64
		work := func(ctx context.Context, _ timeout.Task) error {
			begun.Add(1)
			select {
			case <-time.After(30 * time.Minute):
			case <-ctx.Done():
			}
			return nil
		}
		a := rigOn(t, e, timeout.Config{Node: "a", Topic: topic})
		require.NoError(t, a.Handle("orders", work))
		b := rigOn(t, e, timeout.Config{Node: "b", Topic: topic})
		require.NoError(t, b.Handle("orders", func(context.Context, timeout.Task) error { return nil }))
		pass(30 * time.Second)
		for i := range 40 {
			a.set(fmt.Sprint(i), 0)
		}
		pass(time.Minute)
		require.EqualValues(t, 4, begun.Load())
		require.NoError(t, b.stop())
		for i := range 40 {
			a.set(fmt.Sprint("more-", i), 0)
		}
		pass(10 * time.Minute)
		require.EqualValues(t, 8, begun.Load())
	})
}

// Leases of queued tasks end by sets.
func TestEndedLeasesInTheQueueTakeNoRoom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		caller := &targets{calls: map[string]int{}}
		r := newRig(t, timeout.Config{All: true, TTL: time.Minute, Topic: timeout.Topic{Concurrency: 4, Lease: time.Minute, Timeout: 2 * time.Hour}, Callers: map[string]timeout.Caller{"fake": caller}})
		r.call("first", "good")
		pass(10 * time.Second)
		for i := range 2 {
			r.call(fmt.Sprint("stuck-", i), "stuck")
		}
		pass(time.Second)
		for i := range 4 {
			r.call(fmt.Sprint("more-", i), "stuck")
		}
		pass(10 * time.Millisecond)
		for i := range 4 {
			r.set(fmt.Sprint("more-", i), 10*time.Hour)
		}
		pass(10 * time.Millisecond)
		r.call("ok", "good")
		began := time.Now()
		for caller.count("good") < 2 && time.Since(began) < 5*time.Hour {
			pass(100 * time.Millisecond)
		}
		require.Less(t, time.Since(began), time.Second)
	})
}

// A call of a task's own callback goes on for longer than the worker remembers it, and another process sets a task.
func TestALongCallKeepsNoOtherTaskWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Close() })
		caller := &targets{calls: map[string]int{}}
		rigOn(t, e, timeout.Config{All: true, Topic: timeout.Topic{Timeout: time.Hour}, Callers: map[string]timeout.Caller{"fake": caller}})
		setter, err := timeout.New(e, timeout.Config{Node: "setter", Logger: slog.New(slog.DiscardHandler), Topic: timeout.Topic{Timeout: time.Hour}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, setter.Close()) })
		set := func(id, target string) {
			_, err := setter.Set(t.Context(), timeout.Task{Topic: "orders", ID: id, Callback: &timeout.Callback{Kind: "fake", Target: target}})
			require.NoError(t, err)
		}
		set("long", "stuck")
		pass(time.Minute)
		require.Equal(t, 1, caller.count("stuck"))
		pass(10 * time.Minute)
		set("short", "good")
		began := time.Now()
		for caller.count("good") < 1 && time.Since(began) < 2*time.Hour {
			pass(time.Second)
		}
		require.Less(t, time.Since(began), time.Minute)
	})
}

// Tasks that are given up are not begun, and take tokens of Topic.Rate.
func TestWhatIsGivenUpTakesNoTokensOfTheRate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Close() })
		setter, err := timeout.New(e, timeout.Config{Node: "setter", Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, setter.Close()) })
		_, err = setter.SetTopic(t.Context(), timeout.Topic{Name: "orders", Retries: -1, Lease: time.Second, Rate: 1})
		require.NoError(t, err)
		for i := range 100 {
			_, err := setter.Set(t.Context(), timeout.Task{Topic: "orders", ID: fmt.Sprint("old-", i)})
			require.NoError(t, err)
		}
		batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "dead", Max: 100, Lease: time.Second})
		require.NoError(t, err)
		require.Len(t, batch.Leased, 100)
		pass(2 * time.Second)
		r := rigOn(t, e, timeout.Config{})
		var ran atomic.Int64
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { ran.Add(1); return nil }))
		r.set("new", 0)
		began := time.Now()
		for ran.Load() == 0 && time.Since(began) < time.Hour {
			pass(100 * time.Millisecond)
		}
		require.Less(t, time.Since(began), 10*time.Second)
	})
}

func TestAPullIsNotHeldUpByManyGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Close() })
		c := &countedLeases{Engine: e}
		r := rigOn(t, c, timeout.Config{}).pulled(timeout.Topic{Retries: -1, Lease: time.Second})
		for i := range 1000 {
			r.set(fmt.Sprint("old-", i), 0)
		}
		batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "dead", Max: 1000, Lease: time.Second})
		require.NoError(t, err)
		require.Len(t, batch.Leased, 1000)
		pass(2 * time.Second)
		c.calls.Store(0)
		require.Empty(t, r.pull(1, 0))
		require.Less(t, c.calls.Load(), int64(100))
	})
}

// A node's handler is removed while it runs.
func TestARemovedHandlerKeepsNoOtherTaskWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Close() })
		caller := &targets{calls: map[string]int{}}
		r := rigOn(t, e, timeout.Config{All: true, Topic: timeout.Topic{Timeout: time.Hour}, Callers: map[string]timeout.Caller{"fake": caller}})
		setter, err := timeout.New(e, timeout.Config{Node: "setter", Logger: slog.New(slog.DiscardHandler), Topic: timeout.Topic{Timeout: time.Hour}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, setter.Close()) })
		require.NoError(t, r.Handle("orders", func(ctx context.Context, _ timeout.Task) error { <-ctx.Done(); return nil }))
		pass(time.Second)
		r.set("long", 0)
		pass(time.Second)
		require.NoError(t, r.Handle("orders", nil))
		pass(time.Minute)
		_, err = setter.Set(t.Context(), timeout.Task{Topic: "orders", ID: "short", Callback: &timeout.Callback{Kind: "fake", Target: "good"}})
		require.NoError(t, err)
		began := time.Now()
		for caller.count("good") < 1 && time.Since(began) < 2*time.Hour {
			pass(time.Second)
		}
		require.Less(t, time.Since(began), time.Minute)
	})
}

// The time limit of a topic is made shorter while a handler runs whose context has not ended.
func TestAHandlerWhoseContextGoesOnDoesNotHang(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Concurrency: 1, Lease: time.Second, Timeout: time.Hour, Retries: -1}})
		var most, now atomic.Int64
		require.NoError(t, r.Handle("orders", func(ctx context.Context, _ timeout.Task) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			select {
			case <-time.After(20 * time.Minute):
			case <-ctx.Done():
				time.Sleep(100 * time.Millisecond) // it cleans up
			}
			return nil
		}))
		pass(time.Second)
		r.set("1", 0)
		pass(10 * time.Minute)
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Concurrency: 1, Lease: time.Second, Timeout: time.Minute, Retries: -1})
		require.NoError(t, err)
		r.set("2", time.Second/10)
		pass(15 * time.Second)
		require.EqualValues(t, 1, most.Load(), "Concurrency is 1")
		require.Zero(t, r.stats().Abandoned)
	})
}
