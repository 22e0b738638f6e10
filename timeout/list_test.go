package timeout_test

import (
	"context"
	"strconv"
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

// One task of thousands has it.
func TestACenterListsTheTasksThatHaveSomeMetadata(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		tasks := make([]timeout.Task, 3000)
		for i := range tasks {
			tasks[i] = timeout.Task{Topic: "orders", ID: strconv.Itoa(i), After: time.Hour + time.Duration(i)*time.Second}
		}
		tasks[2500].Options.Metadata = map[string]string{"customer": "7", "region": "eu"}
		_, err := r.SetAll(t.Context(), tasks)
		require.NoError(t, err)
		find := func(metadata map[string]string) (ids []string) {
			query := timeout.Query{Topic: "orders", State: timeout.Pending, Limit: 10, Metadata: metadata}
			for {
				page, err := r.List(t.Context(), query)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page.Tasks), 10)
				for _, task := range page.Tasks {
					ids = append(ids, task.ID)
				}
				if query.Cursor = page.Next; query.Cursor == "" {
					return ids
				}
			}
		}
		require.Equal(t, []string{"2500"}, find(map[string]string{"customer": "7"}))
		require.Equal(t, []string{"2500"}, find(map[string]string{"customer": "7", "region": "eu"}))
		require.Empty(t, find(map[string]string{"customer": "7", "region": ""}))
		require.Len(t, find(nil), 3000)
		_, err = r.List(t.Context(), timeout.Query{Topic: "orders", State: timeout.Pending, Metadata: map[string]string{"": "x"}})
		require.ErrorIs(t, err, timeout.ErrArgument)
	})
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
