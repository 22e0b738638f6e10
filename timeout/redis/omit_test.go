package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

func TestAListWithoutPayloadsIsSentNone(t *testing.T) {
	const large = 6
	server := startServer(t)
	e := openEngine(t, server, redis.Config{PollInterval: -1})
	withTopic(t, e, engine.Topic{Slots: 2})
	for i := range large {
		_, err := e.Set(ctx, []engine.Task{{Topic: "orders", ID: fmt.Sprint(i), After: time.Hour, Payload: make([]byte, engine.MaxPayload)}})
		require.NoError(t, err)
	}
	sent := func() float64 { return server.info(t, "stats", "total_net_output_bytes") }
	before := sent()
	page, err := e.List(ctx, engine.Query{Topic: "orders", State: engine.Pending, OmitPayload: true})
	require.NoError(t, err)
	require.Less(t, sent()-before, float64(engine.MaxPayload), "of %d payloads", large)
	require.Len(t, page.Tasks, large)
	for _, task := range page.Tasks {
		require.Equal(t, engine.MaxPayload, task.PayloadBytes)
	}
}
