package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// A server that hangs keeps the scripts in its socket, and runs them when it goes on.
func TestAServerThatHungLeasesNothingForNobody(t *testing.T) {
	t.Parallel()
	at := startServer(t)
	const wait = time.Second
	at.URL += "?read_timeout=" + wait.String()
	e := openEngine(t, at, redis.Config{PollInterval: -1})
	withTopic(t, e, engine.Topic{Slots: 1, Retries: -1})
	for i := range 10 {
		set(t, e, engine.Task{ID: fmt.Sprint(i)})
	}
	require.Len(t, leaseBatch(t, e, engine.Ask{Max: 1, Lease: time.Hour}).Leased, 1)
	ran := func() (calls int) {
		stats := at.client(t).InfoMap(ctx, "commandstats").Val()
		_, err := fmt.Sscanf(stats["Commandstats"]["cmdstat_evalsha"], "calls=%d", &calls)
		require.NoError(t, err)
		return calls
	}
	before := ran()
	at.Pause(t)
	_, err := e.Lease(ctx, engine.Ask{Topic: "orders", Node: "a", Max: 3, Lease: time.Hour})
	require.Error(t, err)
	time.Sleep(wait)
	at.Continue(t)
	require.Eventually(t, func() bool { return ran() > before }, time.Minute, 10*time.Millisecond)
	counts, err := e.Count(ctx, "orders")
	require.NoError(t, err)
	require.EqualValues(t, 1, counts.Running)
	require.Len(t, leaseBatch(t, e, engine.Ask{Max: 10, Lease: time.Hour}).Leased, 9)
}
