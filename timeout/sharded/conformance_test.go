package sharded_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
	"github.com/heartwheel-go/heartwheel/timeout/sharded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var silent = slog.New(slog.DiscardHandler)

// calm is for healthy shards on a busy machine.
var calm = sharded.Config{CallTimeout: time.Minute, Logger: silent}

func over(t *testing.T, shards ...engine.Engine) engine.Engine {
	t.Helper()
	return overWith(t, calm, shards...)
}

func overWith(t *testing.T, cfg sharded.Config, shards ...engine.Engine) engine.Engine {
	t.Helper()
	e, err := sharded.New(t.Context(), shards, cfg)
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

func shardOf(shards int) func(engine.Key) int {
	return func(key engine.Key) int { return sharded.ShardOf(key, shards) }
}

func TestThreeInMemoryDoWhatEveryEngineMust(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) engine.Engine { return over(t, inMemory(t), inMemory(t), inMemory(t)) }
	enginetest.Run(t, open(t), enginetest.Options{Open: open, PartOf: shardOf(3), NoPeek: true})
}
