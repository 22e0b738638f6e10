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

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/index"
	"github.com/heartwheel-go/heartwheel/timeout/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
	"github.com/heartwheel-go/heartwheel/timeout/sharded"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// patience is for shards that are well, on a machine that may be busy.
const patience = time.Minute

var silent = slog.New(slog.DiscardHandler)

func over(t *testing.T, shards ...timeout.Engine) timeout.Engine {
	t.Helper()
	return overWith(t, sharded.Config{Patience: patience, Logger: silent}, shards...)
}

func overWith(t *testing.T, cfg sharded.Config, shards ...timeout.Engine) timeout.Engine {
	t.Helper()
	engine, err := sharded.New(t.Context(), shards, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	return engine
}

func inMemory(t *testing.T) timeout.Engine {
	t.Helper()
	engine, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	return engine
}

func inFile(t *testing.T, dir string, shard int) timeout.Engine {
	t.Helper()
	engine, err := sqlite.Open(filepath.Join(dir, "tasks"+strconv.Itoa(shard)+".db"), sqlite.Config{})
	require.NoError(t, err)
	return engine
}

func place(shards int) func(timeout.Key) int {
	return func(key timeout.Key) int { return sharded.Place(key, shards) }
}

func TestThreeInMemoryDoWhatEveryEngineMust(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) timeout.Engine { return over(t, inMemory(t), inMemory(t), inMemory(t)) }
	enginetest.Run(t, open(t), enginetest.Options{Open: open, Place: place(3)})
}

func TestFourFilesDoWhatEveryEngineMust(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(t *testing.T) timeout.Engine {
		var shards []timeout.Engine
		for i := range 4 {
			shards = append(shards, inFile(t, dir, i))
		}
		return over(t, shards...)
	}
	enginetest.Run(t, open(t), enginetest.Options{Second: open, Place: place(4)})
}

func TestTwoDatabasesDoWhatEveryEngineMust(t *testing.T) {
	t.Parallel()
	urls := []string{testserver.Database(t), testserver.Database(t)}
	open := func(t *testing.T) timeout.Engine {
		var shards []func(context.Context) (*postgres.Engine, error)
		for _, url := range urls {
			shards = append(shards, func(ctx context.Context) (*postgres.Engine, error) {
				return postgres.Open(ctx, url+"&pool_max_conns=8", postgres.Config{})
			})
		}
		engine, err := sharded.Open(t.Context(), shards, sharded.Config{Patience: patience, Logger: silent})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, engine.Close()) })
		return engine
	}
	engine := open(t)
	require.Implements(t, (*timeout.Truth)(nil), engine)
	require.Implements(t, (*timeout.Waker)(nil), engine)
	enginetest.Run(t, engine, enginetest.Options{Second: open, Place: place(2)})
}

func TestAnIndexCanStandInFrontOfShards(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	truth, ok := over(t, inFile(t, dir, 0), inFile(t, dir, 1)).(timeout.Truth)
	require.True(t, ok)
	engine, err := index.New(truth, inMemory(t), index.Config{Scan: 100 * time.Millisecond, Logger: silent})
	require.NoError(t, err)
	defer func() { require.NoError(t, engine.Close()) }()
	var tasks []timeout.Task
	for i := range 300 {
		tasks = append(tasks, timeout.Task{Topic: "orders", ID: strconv.Itoa(i), After: time.Duration(i) * time.Millisecond})
	}
	_, err = engine.SetTopic(t.Context(), timeout.Topic{Name: "orders"}, true)
	require.NoError(t, err)
	_, err = truth.Set(t.Context(), tasks[:150]) // which the index is not told
	require.NoError(t, err)
	_, err = engine.Set(t.Context(), tasks[150:])
	require.NoError(t, err)
	leased := map[string]timeout.Outcome{}
	require.Eventually(t, func() bool {
		batch, err := engine.Expire(t.Context(), timeout.Ask{Topic: "orders", Node: "n", Max: 50, Lease: time.Minute})
		require.NoError(t, err)
		for _, one := range batch.Leased {
			require.NotContains(t, leased, one.ID)
			leased[one.ID] = timeout.Outcome{Token: one.Token, As: timeout.Done}
		}
		return len(leased) == len(tasks)
	}, time.Minute, 10*time.Millisecond)
	batch, err := engine.Expire(t.Context(), timeout.Ask{Topic: "orders", Settle: slices.Collect(maps.Values(leased))})
	require.NoError(t, err)
	require.NotContains(t, batch.Settled, false)
}
