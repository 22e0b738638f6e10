package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

func newEngine(t *testing.T) timeout.Engine {
	engine, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	return engine
}
