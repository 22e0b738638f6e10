package sharded_test

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/index"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
	"github.com/heartwheel-go/heartwheel/timeout/sharded"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// patience is for healthy shards on a busy machine.
const patience = time.Minute

var silent = slog.New(slog.DiscardHandler)

func over(t *testing.T, shards ...engine.Engine) engine.Engine {
	t.Helper()
	e, err := sharded.New(t.Context(), shards, sharded.Config{CallTimeout: patience, Logger: silent})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func inMemory(t *testing.T) engine.Engine {
	t.Helper()
	e, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func inFile(t *testing.T, dir string, shard int) engine.Engine {
	t.Helper()
	e, err := sqlite.Open(filepath.Join(dir, "tasks"+strconv.Itoa(shard)+".db"), sqlite.Config{})
	require.NoError(t, err)
	return e
}

func shardOf(shards int) func(engine.Key) int {
	return func(key engine.Key) int { return sharded.ShardOf(key, shards) }
}

func TestFourFilesDoWhatEveryEngineMust(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(t *testing.T) engine.Engine {
		var shards []engine.Engine
		for i := range 4 {
			shards = append(shards, inFile(t, dir, i))
		}
		return over(t, shards...)
	}
	enginetest.Run(t, open(t), enginetest.Options{Second: open, PartOf: shardOf(4)})
}

func TestTwoDatabasesDoWhatEveryEngineMust(t *testing.T) {
	t.Parallel()
	urls := []string{testserver.Database(t), testserver.Database(t)}
	open := func(t *testing.T) engine.Engine {
		var shards []func(context.Context) (*postgres.Engine, error)
		for _, url := range urls {
			shards = append(shards, func(ctx context.Context) (*postgres.Engine, error) {
				return postgres.Open(ctx, url+"&pool_max_conns=8", postgres.Config{})
			})
		}
		e, err := sharded.Open(t.Context(), shards, sharded.Config{CallTimeout: patience, Logger: silent})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		return e
	}
	e := open(t)
	require.Implements(t, (*engine.Waker)(nil), e)
	enginetest.Run(t, e, enginetest.Options{Second: open, PartOf: shardOf(2)})
}

func TestAnIndexCanStandInFrontOfEachShard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tables := []engine.Engine{inFile(t, dir, 0), inFile(t, dir, 1)}
	var shards []engine.Engine
	for _, table := range tables {
		e, err := index.New(table.(engine.Primary), inMemory(t), index.Config{Scan: 100 * time.Millisecond, Logger: silent})
		require.NoError(t, err)
		shards = append(shards, e)
	}
	e := over(t, shards...)
	require.Implements(t, (*engine.Waker)(nil), e)
	var tasks []engine.Task
	for i := range 300 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: strconv.Itoa(i), After: time.Duration(i) * time.Millisecond})
	}
	_, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, true)
	require.NoError(t, err)
	for _, task := range tasks[:150] { // the indexes are not told
		_, err = tables[sharded.ShardOf(task.Key(), 2)].Set(t.Context(), []engine.Task{task})
		require.NoError(t, err)
	}
	_, err = e.Set(t.Context(), tasks[150:])
	require.NoError(t, err)
	leased := map[string]engine.Outcome{}
	require.Eventually(t, func() bool {
		batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "n", Max: 50, Lease: time.Minute})
		require.NoError(t, err)
		for _, one := range batch.Leased {
			require.NotContains(t, leased, one.ID)
			leased[one.ID] = engine.Outcome{Token: one.Token, As: engine.Done}
		}
		return len(leased) == len(tasks)
	}, time.Minute, 10*time.Millisecond)
	batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Settle: slices.Collect(maps.Values(leased))})
	require.NoError(t, err)
	require.NotContains(t, batch.Settled, false)
}
