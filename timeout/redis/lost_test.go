package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// A server has lost its last writes, in a crash or a failover, and gives no number twice. Otherwise a
// target would take the new set for an old one, done already, and an old lease would settle a new one.
func TestNumbersThatWereLostAreNotGivenAgain(t *testing.T) {
	server := startServer(t)
	e := openEngine(t, server, redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 2, Retries: -1})
	const tasks = 40
	type number struct {
		id string
		n  int64
	}
	versions, leases := map[number]bool{}, map[number]bool{}
	give := func() {
		all := make([]engine.Task, tasks)
		for i := range all {
			all[i] = engine.Task{Topic: "orders", ID: fmt.Sprint(i)}
		}
		seen := func(answers []engine.Answer, err error) {
			require.NoError(t, err)
			for i, answer := range answers {
				require.NoError(t, answer.Err)
				v := number{all[i].ID, answer.Version}
				require.False(t, versions[v], "version %v was given before", v)
				versions[v] = true
			}
		}
		keys, moves := make([]engine.Key, tasks), make([]engine.Move, tasks)
		for i, task := range all {
			keys[i], moves[i] = task.Key(), engine.Move{Key: task.Key()}
		}
		seen(e.Set(ctx, all))
		seen(e.Move(ctx, moves))
		batch, err := e.Expire(ctx, engine.Ask{Topic: "orders", Node: "n", Max: tasks, Lease: time.Minute})
		require.NoError(t, err)
		require.Len(t, batch.Leased, tasks)
		dead := make([]engine.Outcome, tasks)
		for i, leased := range batch.Leased {
			l := number{leased.ID, leased.Token.Lease}
			require.False(t, leases[l], "lease %v was given before", l)
			leases[l] = true
			dead[i] = engine.Outcome{Token: leased.Token, As: engine.Dead}
		}
		batch, err = e.Expire(ctx, engine.Ask{Topic: "orders", Node: "n", Settle: dead})
		require.NoError(t, err)
		require.NotContains(t, batch.Settled, false)
		seen(e.Replay(ctx, keys))
	}
	give()
	require.NoError(t, server.client(t).Save(ctx).Err())
	for range 3 {
		give()
		server.Kill(t)
		server.Restart(t) // with what was saved
		require.Eventually(t, func() bool { _, err := e.Count(ctx, "orders"); return err == nil }, time.Minute, 10*time.Millisecond)
	}
	give()
	require.Len(t, versions, 5*3*tasks)
	require.Len(t, leases, 5*tasks)
}
