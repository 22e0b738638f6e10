package redis_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

func TestAClusterDoesWhatEveryEngineMust(t *testing.T) {
	servers := shareCluster(t)
	open := func(t *testing.T) engine.Engine {
		e, err := redis.Open(t.Context(), servers[1].patient(), redis.Config{Executions: redis.MaxExecutions})
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	enginetest.Run(t, open(t), enginetest.Options{Second: open})
}

func TestOpenLooksAtAllMastersOfACluster(t *testing.T) {
	t.Parallel()
	_, servers := startCluster(t, 3, 0)
	last := servers[2]
	require.NoError(t, last.client(t).ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
	_, err := redis.Open(ctx, servers[0].URL, redis.Config{})
	require.ErrorIs(t, err, engine.ErrArgument)
	require.ErrorContains(t, err, "allkeys-lru")
	last.Kill(t)
	e, err := redis.Open(ctx, servers[0].URL, redis.Config{})
	require.NoError(t, err, "a master that is away holds up nobody")
	require.NoError(t, e.Close())
}

func TestASlotOfAClusterIsMovedUnderLoad(t *testing.T) {
	t.Parallel()
	_, servers := startCluster(t, 3, 0)
	e := openEngine(t, servers[0], redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 1})
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		count := 0
		defer func() { done <- count }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			answers, err := e.Set(ctx, []engine.Task{{Topic: "orders", ID: fmt.Sprint(count)}, {Topic: "orders", ID: fmt.Sprint(count + 1)}})
			if !assert.NoError(t, err) || !assert.NoError(t, answers[0].Err) {
				return
			}
			for _, answer := range answers {
				assert.Equal(t, engine.None, answer.Was) // nothing was done twice
			}
			count += 2
		}
	}()
	for range 3 {
		time.Sleep(50 * time.Millisecond)
		moveKeys(t, servers, e.Prefix()+":{orders:*")
	}
	close(stop)
	count := <-done
	counts, err := e.Count(ctx, "orders")
	require.NoError(t, err)
	require.EqualValues(t, count, counts.Pending)
	require.Positive(t, count)
}

func TestTheListOfTopicsIsFoundWhereItHasMoved(t *testing.T) {
	t.Parallel()
	_, servers := startCluster(t, 3, 0)
	e := openEngine(t, servers[0], redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 1})
	for range 3 {
		moveKeys(t, servers, e.Prefix()+":{topics}:*")
		topics, err := e.Topics(ctx)
		require.NoError(t, err)
		require.Len(t, topics, 1)
	}
}

// moveKeys moves the slot of the Cluster with keys of a pattern to another server, key by key.
func moveKeys(t *testing.T, servers []server, pattern string) {
	t.Helper()
	for i, from := range servers {
		keys := from.client(t).Keys(ctx, pattern).Val()
		if len(keys) == 0 {
			continue
		}
		to := servers[(i+1)%len(servers)]
		source, target := from.client(t), to.client(t)
		host, port, err := net.SplitHostPort(to.Addr)
		require.NoError(t, err)
		slot := source.ClusterKeySlot(ctx, keys[0]).Val()
		sourceID, targetID := source.Do(ctx, "CLUSTER", "MYID").Val(), target.Do(ctx, "CLUSTER", "MYID").Val()
		require.NoError(t, target.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", sourceID).Err())
		require.NoError(t, source.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", targetID).Err())
		for moved := true; moved; {
			keys, err := source.ClusterGetKeysInSlot(ctx, int(slot), 1).Result()
			require.NoError(t, err)
			if moved = len(keys) > 0; moved {
				require.NoError(t, source.Migrate(ctx, host, port, keys[0], 0, 5*time.Second).Err())
				time.Sleep(10 * time.Millisecond)
			}
		}
		for _, s := range servers {
			require.NoError(t, s.client(t).Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", targetID).Err())
		}
		return
	}
	t.Fatal("no server has the keys")
}

func TestAServerOfAClusterFailsOver(t *testing.T) {
	t.Parallel()
	cluster, servers := startCluster(t, 3, 1)
	e := openEngine(t, servers[0], redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 16})
	var tasks []engine.Task
	for i := range 1000 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i)})
	}
	_, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	victim := server{cluster.Masters(t)[0]}
	require.Eventually(t, func() bool { // its replica has all
		info, err := victim.client(t).InfoMap(ctx, "replication").Result()
		fields := info["Replication"]
		return err == nil && strings.Contains(fields["slave0"], ",offset="+fields["master_repl_offset"]+",")
	}, time.Minute, 10*time.Millisecond)
	cluster.SuspectSoon(t)
	victim.Kill(t)
	fired := map[string]bool{}
	var settle []engine.Outcome
	require.Eventually(t, func() bool {
		batch, err := e.Lease(ctx, engine.Ask{Topic: "orders", Node: "n", Settle: settle, Max: 100, Lease: 3 * time.Second})
		if err != nil {
			return false
		}
		settle = settle[:0]
		for _, leased := range batch.Leased {
			fired[leased.ID] = true
			settle = append(settle, engine.Outcome{Token: leased.Token, As: engine.Done})
		}
		return len(fired) == len(tasks)
	}, time.Minute, time.Millisecond)
}
