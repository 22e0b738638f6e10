package timeout_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// listing is an engine that counts the tasks in its lists, and the bytes of their payloads.
type listing struct {
	engine.Engine
	tasks, bytes atomic.Int64
}

func (e *listing) List(ctx context.Context, query engine.Query) (engine.Page, error) {
	page, err := e.Engine.List(ctx, query)
	for _, task := range page.Tasks {
		e.tasks.Add(1)
		e.bytes.Add(int64(len(task.Payload)))
	}
	return page, err
}

func TestACenterListsTasksWithoutTheirPayloads(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		inner, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, inner.Close()) })
		e := &listing{Engine: inner}
		r := rigOn(t, e, timeout.Config{All: true, Poll: time.Second, Callers: map[string]timeout.Caller{"fake": &hosts{}}})
		_, err = r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Every: yearly})
		require.NoError(t, err)
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { return nil }))
		set := func(topic string) {
			_, err := r.Set(t.Context(), timeout.Task{Topic: topic, ID: "x", Payload: []byte("large")})
			require.NoError(t, err)
		}
		set("orders")
		pass(time.Minute)
		change, err := r.ChangeTopic(t.Context(), timeout.Topic{Name: "orders", Every: hourly})
		require.NoError(t, err)
		require.Equal(t, 1, change.Rescheduled)
		require.Positive(t, e.tasks.Swap(0), "to find those to be moved")
		set("hooks")
		pass(time.Minute)
		require.Positive(t, e.tasks.Load(), "to find those with callbacks of their own")
		require.Zero(t, e.bytes.Load())
	})
}
