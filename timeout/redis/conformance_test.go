package redis_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

func TestItDoesWhatEveryEngineMust(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	for _, executions := range []int{0, redis.MaxExecutions} {
		t.Run(fmt.Sprint("executions=", executions), func(t *testing.T) {
			t.Parallel()
			open := func(t *testing.T) engine.Engine {
				e, err := redis.Open(t.Context(), server.patient(), redis.Config{Prefix: fmt.Sprint("log", executions), Executions: executions})
				require.NoError(t, err)
				t.Cleanup(func() { _ = e.Close() })
				return e
			}
			enginetest.Run(t, open(t), enginetest.Options{Second: open})
		})
	}
}
