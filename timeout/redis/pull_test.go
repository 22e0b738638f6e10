package redis_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// The first Pull of a topic on a node finds what is due, also with one server.
func TestTheFirstPullFindsWhatIsDue(t *testing.T) {
	t.Parallel()
	e := openEngine(t, sharedServer(t), redis.Config{})
	center, err := timeout.New(e, timeout.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, center.Close()) })
	empty := 0
	for n := range 20 {
		topic := fmt.Sprint("orders-", n)
		_, err := center.SetTopic(ctx, engine.Topic{Name: topic, Pull: true})
		require.NoError(t, err)
		_, err = center.Set(ctx, engine.Task{Topic: topic, ID: "1"})
		require.NoError(t, err)
		leased, err := center.Pull(ctx, timeout.Pull{Topic: topic})
		require.NoError(t, err)
		if len(leased) == 0 {
			empty++
		}
	}
	require.Zero(t, empty, "empty answers of 20, though a task was due")
}
