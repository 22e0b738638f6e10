package sharded_test

import (
	"context"
	"log/slog"
	"path/filepath"
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

var silent = slog.New(slog.DiscardHandler)

func over(t *testing.T, shards ...timeout.Engine) timeout.Engine {
	t.Helper()
	engine, err := sharded.New(t.Context(), shards, sharded.Config{Logger: silent})
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
		engine, err := sharded.Open(t.Context(), shards, sharded.Config{Logger: silent})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, engine.Close()) })
		return engine
	}
	engine := open(t)
	require.Implements(t, (*timeout.Truth)(nil), engine)
	require.Implements(t, (*timeout.Waker)(nil), engine)
	enginetest.Run(t, engine, enginetest.Options{Second: open, Place: place(2)})
}

func TestAnIndexInFrontOfFilesDoesWhatEveryEngineMust(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	truth, ok := over(t, inFile(t, dir, 0), inFile(t, dir, 1)).(timeout.Truth)
	require.True(t, ok)
	engine, err := index.New(truth, inMemory(t), index.Config{Scan: 100 * time.Millisecond, Logger: silent})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	enginetest.Run(t, engine, enginetest.Options{Place: place(2)})
}
