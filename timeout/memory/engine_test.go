package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestItDoesWhatEveryEngineMust(t *testing.T) {
	open := func(t *testing.T) timeout.Engine {
		engine, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, engine.Close()) })
		return engine
	}
	enginetest.Run(t, open(t), enginetest.Options{Open: open})
}

func TestAClosedEngineRefusesAllCalls(t *testing.T) {
	engine, err := memory.New(memory.Config{})
	require.NoError(t, err)
	require.NoError(t, engine.Close())
	require.NoError(t, engine.Close())
	_, err = engine.Topics(t.Context())
	require.ErrorIs(t, err, timeout.ErrClosed)
	_, err = memory.New(memory.Config{Tick: 1})
	require.ErrorIs(t, err, timeout.ErrArgument)
}
