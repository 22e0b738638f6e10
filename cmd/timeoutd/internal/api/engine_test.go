package api

import (
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

func newEngine(t *testing.T) timeout.Engine {
	engine, err := redis.Open(t.Context(), "redis://127.0.0.1:17077", redis.Config{Prefix: rand.Text()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	return engine
}
