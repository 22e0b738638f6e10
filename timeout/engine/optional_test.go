package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

type logging struct {
	engine.Engine
	engine.Log
}

type told struct {
	logging
	logs bool
}

func (e told) Logs() bool { return e.logs }

func TestAnEngineMaySayThatItKeepsNoLog(t *testing.T) {
	require.False(t, engine.Logs(struct{ engine.Engine }{}))
	require.True(t, engine.Logs(logging{}))
	require.True(t, engine.Logs(told{logs: true}))
	require.False(t, engine.Logs(told{logs: false}))
}
