package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

func peek(t testing.TB, e *redis.Engine, topic string) time.Duration {
	waits, err := e.Peek(ctx, []engine.Peek{{Topic: topic}})
	require.NoError(t, err)
	return waits[0]
}

func TestAPeekAtManyTopicsTakesFewRuns(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	e := openEngine(t, server, redis.Config{})
	peeks := make([]engine.Peek, 64)
	for i := range peeks {
		peeks[i].Topic = fmt.Sprint("idle-", i)
		withTopic(t, e, engine.Topic{Name: peeks[i].Topic, Slots: 8})
	}
	require.NoError(t, server.client(t).ConfigResetStat(ctx).Err())
	waits, err := e.Peek(ctx, peeks)
	require.NoError(t, err)
	for _, wait := range waits {
		require.Equal(t, engine.NothingDue, wait)
	}
	require.LessOrEqual(t, server.calls(t, "evalsha"), 64*8/128+1, "128 slots to a run")
}

// What a peek can't know is for Lease.
func TestAPeekLeavesToLeaseWhatItCanNotTell(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	cfg := redis.Config{Prefix: prefix()}
	e, other := openEngine(t, server, cfg), openEngine(t, server, cfg)
	withTopic(t, e, engine.Topic{Slots: 2})
	require.Zero(t, peek(t, other, "orders"), "not known yet")
	leaseBatch(t, other, engine.Ask{Max: 1})
	require.Equal(t, engine.NothingDue, peek(t, other, "orders"))

	growBefore(t, server.client(t), e, 4)
	require.Zero(t, peek(t, other, "orders"), "it is to be migrated")
	purge(t, e)
	leaseBatch(t, other, engine.Ask{Max: 1})
	require.Equal(t, engine.NothingDue, peek(t, other, "orders"))

	withTopic(t, e, engine.Topic{Slots: 8})
	require.Equal(t, engine.NothingDue, peek(t, other, "orders"), "its partitions are the same")
	set(t, e, engine.Task{ID: "1"})
	require.LessOrEqual(t, peek(t, other, "orders"), time.Duration(0))
	require.Len(t, leaseBatch(t, other, engine.Ask{Max: 1}).Leased, 1)

	require.NoError(t, server.client(t).FlushAll(ctx).Err())
	require.Zero(t, peek(t, e, "orders"), "its data is lost")
}

// Only Lease shortens a lease from before the clock was stepped back.
func TestAPeekNoticesAClockThatWasSteppedBack(t *testing.T) {
	t.Parallel()
	own := server{testserver.RedisWithClock(t)}
	own.SetClock(t, time.Hour)
	e := openEngine(t, own, redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 1, Lease: time.Minute})
	set(t, e, engine.Task{ID: "1"})
	require.Len(t, leaseBatch(t, e, engine.Ask{Max: 1, Lease: time.Minute}).Leased, 1)
	require.LessOrEqual(t, peek(t, e, "orders"), time.Minute)
	require.Greater(t, peek(t, e, "orders"), time.Duration(0))
	own.SetClock(t, 0)
	require.Zero(t, peek(t, e, "orders"))
	leaseBatch(t, e, engine.Ask{Max: 1, Lease: time.Minute})
	require.LessOrEqual(t, peek(t, e, "orders"), time.Minute)
	require.Greater(t, peek(t, e, "orders"), time.Duration(0))
}
