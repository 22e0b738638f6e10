package redis_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

func TestItDoesWhatEveryEngineMust(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	open := func(t *testing.T) engine.Engine {
		e, err := redis.Open(t.Context(), server.patient(), redis.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	enginetest.Run(t, open(t), enginetest.Options{Second: open})
}
