package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

var small = []string{"--maxmemory", "12mb", "--maxmemory-policy", "noeviction"}

// end sets tasks and ends them. It has set as many as before already.
func end(t *testing.T, e *redis.Engine, topic string, as engine.State, before, count, size int) {
	t.Helper()
	tasks := make([]engine.Task, count)
	for i := range tasks {
		tasks[i] = engine.Task{Topic: topic, ID: fmt.Sprint(before + i), Payload: make([]byte, size)}
	}
	answers, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	for _, answer := range answers {
		require.NoError(t, answer.Err, "after %d", before)
	}
	var settle []engine.Outcome
	for len(settle) < count {
		for _, leased := range leaseBatch(t, e, engine.Ask{Topic: topic, Max: count}).Leased {
			settle = append(settle, engine.Outcome{Token: leased.Token, As: as})
		}
	}
	leaseBatch(t, e, engine.Ask{Topic: topic, Settle: settle})
}

// ended returns the number of ended tasks.
func ended(t *testing.T, e *redis.Engine, topic string) int {
	t.Helper()
	counts, err := e.Count(ctx, topic)
	require.NoError(t, err)
	return int(counts.Done + counts.Dead + counts.Removed)
}

// Without a bound the ended tasks would have three times the memory of the servers.
func TestEndedTasksDoNotFillAServer(t *testing.T) {
	t.Parallel()
	_, masters := startClusterOf(t, 3, small...)
	for name, test := range map[string]struct {
		server server
		size   int
	}{"one server": {startServer(t, small...), 8 << 10}, "cluster": {masters[0], 24 << 10}} {
		for _, as := range []engine.State{engine.Dead, engine.Done} {
			t.Run(fmt.Sprint(name, "/", as), func(t *testing.T) {
				const batches, batch, few = 45, 100, 16
				e := openEngine(t, test.server, redis.Config{PollInterval: -1})
				for _, name := range []string{"orders", "quiet"} {
					withTopic(t, e, engine.Topic{Name: name, Slots: 16, Retain: time.Hour, MaxDead: -1})
				}
				end(t, e, "quiet", as, 0, few, 100)
				purged := 0
				for n := range batches {
					end(t, e, "orders", as, n*batch, batch, test.size)
					purged += purge(t, e)
				}
				left := ended(t, e, "orders")
				if as == engine.Dead {
					require.Equal(t, batch*batches, left+purged, "each one is counted")
				}
				require.Greater(t, left*test.size, 12<<20/8, "no more are deleted than needed")
				require.Equal(t, as, get(t, e, fmt.Sprint(batch*batches-1)).State, "the oldest go first")
				require.Equal(t, few, ended(t, e, "quiet"), "it does not need the room")
				require.NoError(t, e.DropTopic(ctx, "orders"))
			})
		}
	}
}

// The waiting tasks fill a server, and the ended ones can't make much room.
func TestFewEndedTasksStayOnAFullServer(t *testing.T) {
	t.Parallel()
	e := openEngine(t, startServer(t, small...), redis.Config{PollInterval: -1})
	withTopic(t, e, engine.Topic{Retain: time.Hour})
	end(t, e, "orders", engine.Dead, 0, 50, 8<<10)
	end(t, e, "orders", engine.Done, 50, 50, 8<<10)
	var full error
	for i := 100; full == nil; i++ {
		answers, err := e.Set(ctx, []engine.Task{{Topic: "orders", ID: fmt.Sprint(i), After: time.Hour, Payload: make([]byte, 8<<10)}})
		require.NoError(t, err)
		full = answers[0].Err
	}
	require.ErrorIs(t, full, engine.ErrFull)
	require.Zero(t, purge(t, e))
	require.Equal(t, 100, ended(t, e, "orders"))
}
