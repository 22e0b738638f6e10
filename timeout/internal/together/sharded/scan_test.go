package sharded_test

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/index"
	"github.com/heartwheel-go/heartwheel/timeout/sharded"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

// slowToSet is an index that takes half a second for a page of entries.
type slowToSet struct{ engine.Engine }

func (s slowToSet) Set(ctx context.Context, tasks []engine.Task) ([]engine.Answer, error) {
	time.Sleep(500 * time.Millisecond)
	return s.Engine.Set(ctx, tasks)
}

// After an outage very many tasks are due, and the index has none of them.
func TestAShardIsNotAwayWhileItsIndexIsFilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.db")
	synctest.Test(t, func(t *testing.T) {
		table, err := sqlite.Open(path, sqlite.Config{})
		require.NoError(t, err)
		shard, err := index.New(table, slowToSet{inMemory(t)}, index.Config{Logger: silent})
		require.NoError(t, err)
		e, err := sharded.New(t.Context(), []engine.Engine{shard}, sharded.Config{Logger: silent})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, true)
		require.NoError(t, err)
		tasks := make([]engine.Task, 20_000)
		for i := range tasks {
			tasks[i] = engine.Task{Topic: "orders", ID: strconv.Itoa(i)}
		}
		_, err = table.Set(t.Context(), tasks)
		require.NoError(t, err)
		for range 10 {
			batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "a", Max: 100, Lease: time.Minute})
			require.NoError(t, err)
			require.Len(t, batch.Leased, 100)
		}
	})
}
