package timeout_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// topicless is an engine whose topics can't be read from some time on: a node knows only what it has read.
type topicless struct {
	engine.Engine
	away   atomic.Bool
	leases atomic.Int64
}

func (e *topicless) Topics(ctx context.Context) ([]timeout.Topic, error) {
	if e.away.Load() {
		return nil, errors.New("no topics")
	}
	return e.Engine.Topics(ctx)
}

func (e *topicless) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	e.leases.Add(1)
	return e.Engine.Lease(ctx, ask)
}

func TestAPauseUntilATimeEndsAtThatTimeOnAllNodes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		e := &topicless{Engine: store}
		ran := new(record)
		topic := timeout.Topic{Name: "orders", Slots: 4}
		var nodes []*rig
		for _, name := range []string{"a", "b"} {
			r := rigOn(t, e, timeout.Config{Node: name, Topic: topic})
			require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error { ran.add(task.ID); return nil }))
			nodes = append(nodes, r)
		}
		pass(20 * time.Second)
		r := nodes[0]
		idle := e.leases.Load()
		pass(time.Minute)
		idle = e.leases.Load() - idle
		until := time.Now().Truncate(time.Millisecond).Add(10*time.Minute + 123*time.Millisecond)
		require.NoError(t, r.PauseUntil(t.Context(), "orders", until))
		for _, id := range []string{"1", "2", "3", "4", "5"} {
			r.set(id, 0)
		}
		pass(time.Minute)
		for _, node := range nodes {
			known, err := node.Topic(t.Context(), "orders")
			require.NoError(t, err)
			require.True(t, known.Paused)
			require.True(t, until.Equal(known.PausedUntil))
		}
		before := e.leases.Load()
		pass(time.Minute)
		require.LessOrEqual(t, e.leases.Load()-before, idle+20, "it costs no more than a topic without due tasks")
		e.away.Store(true)
		pass(time.Until(until) - time.Millisecond)
		require.Empty(t, ran.all())
		require.Empty(t, r.Unserved())
		pass(5 * time.Millisecond) // as long after it as any task can be
		require.Len(t, ran.all(), 5)
	})
}

// The end comes as well to who waits for the tasks of a topic with Pull, and a later call takes it back.
func TestAPullGetsTheTasksWhenAPauseEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := pullRig(t, timeout.Topic{})
		r.set("1", 0)
		ctx, began := t.Context(), time.Now()
		require.NoError(t, r.PauseUntil(ctx, "orders", began.Add(time.Minute)))
		require.NotEmpty(t, r.pull(1, time.Hour))
		require.InDelta(t, time.Minute, time.Since(began), float64(5*time.Millisecond))

		r.set("2", 0)
		began = time.Now()
		require.NoError(t, r.PauseUntil(ctx, "orders", began.Add(time.Hour)))
		require.NoError(t, r.PauseUntil(ctx, "orders", began.Add(time.Minute)))
		require.NotEmpty(t, r.pull(1, time.Hour))
		require.InDelta(t, time.Minute, time.Since(began), float64(5*time.Millisecond))

		r.set("3", 0)
		require.NoError(t, r.PauseUntil(ctx, "orders", time.Now().Add(time.Minute)))
		require.NoError(t, r.Pause(ctx, "orders"))
		require.Empty(t, r.pull(1, time.Hour))
		require.NoError(t, r.PauseUntil(ctx, "orders", time.Now().Add(time.Hour)))
		require.NoError(t, r.Resume(ctx, "orders"))
		require.NotEmpty(t, r.pull(1, time.Second))
	})
}

func TestAPauseThatCanNotEndIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		ctx := t.Context()
		made, err := r.SetTopic(ctx, timeout.Topic{Name: "orders"})
		require.NoError(t, err)
		for _, until := range []time.Time{{}, time.Now(), time.Now().Add(-time.Second), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
			err := r.PauseUntil(ctx, "orders", until)
			require.ErrorIs(t, err, timeout.ErrArgument)
			require.ErrorContains(t, err, until.String())
			if until.IsZero() {
				continue
			}
			paused := made
			paused.Paused, paused.PausedUntil = true, until
			_, err = r.ChangeTopicIf(ctx, made, paused)
			require.ErrorIs(t, err, timeout.ErrArgument)
			require.ErrorContains(t, err, until.String())
		}
		require.ErrorIs(t, r.PauseUntil(ctx, "none", time.Now().Add(time.Hour)), timeout.ErrNotFound)
		require.ErrorIs(t, r.PauseUntil(ctx, "no topic", time.Now().Add(time.Hour)), timeout.ErrArgument)
		_, err = r.SetTopic(ctx, timeout.Topic{Name: "new", PausedUntil: time.Now().Add(time.Hour)})
		require.ErrorIs(t, err, timeout.ErrArgument)
		require.ErrorContains(t, err, "PausedUntil")
		_, err = r.SetTopic(ctx, timeout.Topic{Name: "new", Paused: true, PausedUntil: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)})
		require.ErrorIs(t, err, timeout.ErrArgument)
		has, err := r.Topic(ctx, "orders")
		require.NoError(t, err)
		require.Equal(t, made, has)
	})
}

// A change on condition moves waiting tasks as any other, and changes the pause.
func TestAChangeOnConditionIsOneOfATopicAsItWas(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		ctx := t.Context()
		change, err := r.ChangeTopicIf(ctx, timeout.Topic{}, timeout.Topic{Name: "orders", Every: "0 0 1 1 *"})
		require.NoError(t, err)
		require.Empty(t, change.Was.Name)
		_, err = r.ChangeTopicIf(ctx, timeout.Topic{}, timeout.Topic{Name: "orders"})
		require.ErrorIs(t, err, timeout.ErrChanged)
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { return nil }))
		r.set("1", 0)
		pass(20 * time.Second)

		was, next := change.Topic, change.Topic
		next.Every, next.Paused, next.PausedUntil = "10m", true, time.Now().Add(time.Hour)
		change, err = r.ChangeTopicIf(ctx, was, next)
		require.NoError(t, err)
		require.Equal(t, was, change.Was)
		require.Equal(t, 1, change.Rescheduled)
		require.True(t, next.PausedUntil.Equal(change.Topic.PausedUntil))
		next.Every = "20m"
		_, err = r.ChangeTopicIf(ctx, was, next)
		require.ErrorIs(t, err, timeout.ErrChanged)
		require.ErrorIs(t, err, timeout.ErrConflict)
		pass(time.Hour)
		next = change.Topic
		next.Paused, next.PausedUntil = false, time.Time{}
		_, err = r.ChangeTopicIf(ctx, change.Topic, next)
		require.ErrorIs(t, err, timeout.ErrChanged, "the pause has ended")
	})
}
