package redis_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// startCluster starts so many masters, with a replica each if asked for.
func startCluster(t testing.TB, masters, replicas int) []*server {
	t.Helper()
	servers := make([]*server, masters*(1+replicas))
	args := []string{"--cluster", "create"}
	for i := range servers {
		servers[i] = startServer(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port", fmt.Sprint(freePort(t)),
			"--cluster-config-file", filepath.Join(t.TempDir(), "nodes.conf"), "--repl-diskless-sync-delay", "0")
		args = append(args, servers[i].addr())
	}
	args = append(args, "--cluster-replicas", fmt.Sprint(replicas), "--cluster-yes")
	out, err := exec.Command("redis-cli", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, s := range servers {
		client := s.client(t)
		require.Eventually(t, func() bool {
			info, err := client.ClusterInfo(ctx).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok")
		}, 30*time.Second, 20*time.Millisecond)
	}
	return servers
}

func TestAClusterDoesWhatEveryEngineMust(t *testing.T) {
	t.Parallel()
	servers := startCluster(t, 3, 0)
	open := func(t *testing.T) timeout.Engine {
		engine, err := redis.Open(t.Context(), servers[1].url(), redis.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = engine.Close() })
		return engine
	}
	enginetest.Run(t, open(t), enginetest.Options{Second: open})
}

func TestASlotOfAClusterIsMovedUnderLoad(t *testing.T) {
	t.Parallel()
	servers := startCluster(t, 3, 0)
	engine := openEngine(t, servers[0], redis.Config{})
	withTopic(t, engine, timeout.Topic{Slots: 1})
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
			answers, err := engine.Set(ctx, []timeout.Task{{Topic: "orders", ID: fmt.Sprint(count)}, {Topic: "orders", ID: fmt.Sprint(count + 1)}})
			if !assert.NoError(t, err) || !assert.NoError(t, answers[0].Err) {
				return
			}
			for _, answer := range answers {
				assert.Equal(t, timeout.None, answer.Was) // nothing was done twice
			}
			count += 2
		}
	}()
	for range 3 {
		time.Sleep(50 * time.Millisecond)
		moveKeys(t, servers, engine.Prefix())
	}
	close(stop)
	count := <-done
	counts, err := engine.Count(ctx, "orders")
	require.NoError(t, err)
	require.EqualValues(t, count, counts.Pending)
	require.Positive(t, count)
}

// moveKeys moves the slot of the Cluster that has the keys of a topic to another server, key
// by key.
func moveKeys(t *testing.T, servers []*server, prefix string) {
	t.Helper()
	for i, from := range servers {
		keys := from.client(t).Keys(ctx, prefix+":{orders:*").Val()
		if len(keys) == 0 {
			continue
		}
		to := servers[(i+1)%len(servers)]
		source, target := from.client(t), to.client(t)
		slot := source.ClusterKeySlot(ctx, keys[0]).Val()
		sourceID, targetID := source.Do(ctx, "CLUSTER", "MYID").Val(), target.Do(ctx, "CLUSTER", "MYID").Val()
		require.NoError(t, target.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", sourceID).Err())
		require.NoError(t, source.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", targetID).Err())
		for moved := true; moved; {
			keys, err := source.ClusterGetKeysInSlot(ctx, int(slot), 1).Result()
			require.NoError(t, err)
			if moved = len(keys) > 0; moved {
				require.NoError(t, source.Migrate(ctx, "127.0.0.1", fmt.Sprint(to.port), keys[0], 0, 5*time.Second).Err())
				time.Sleep(10 * time.Millisecond)
			}
		}
		for _, s := range servers {
			require.NoError(t, s.client(t).Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", targetID).Err())
		}
		return
	}
	t.Fatal("no server has the topic")
}

func TestAServerOfAClusterFailsOver(t *testing.T) {
	t.Parallel()
	servers := startCluster(t, 3, 1)
	engine := openEngine(t, servers[0], redis.Config{})
	withTopic(t, engine, timeout.Topic{Slots: 16})
	var tasks []timeout.Task
	for i := range 1000 {
		tasks = append(tasks, timeout.Task{Topic: "orders", ID: fmt.Sprint(i)})
	}
	_, err := engine.Set(ctx, tasks)
	require.NoError(t, err)
	victim := master(t, servers)
	require.Eventually(t, func() bool { // its replica has all
		n, err := victim.client(t).Wait(ctx, 1, time.Second).Result()
		return err == nil && n == 1
	}, 20*time.Second, 10*time.Millisecond)
	victim.kill()
	fired := map[string]bool{}
	var settle []timeout.Outcome
	var last error
	defer func() { t.Log(len(fired), last) }()
	require.Eventually(t, func() bool {
		batch, err := engine.Expire(ctx, timeout.Ask{Topic: "orders", Node: "n", Settle: settle, Max: 100, Lease: 3 * time.Second})
		if last = err; err != nil {
			return false
		}
		settle = settle[:0]
		for _, leased := range batch.Leased {
			fired[leased.ID] = true
			settle = append(settle, timeout.Outcome{Token: leased.Token, As: timeout.Done})
		}
		return len(fired) == len(tasks)
	}, 30*time.Second, time.Millisecond)
}

func master(t *testing.T, servers []*server) *server {
	t.Helper()
	for _, s := range servers[1:] {
		client := goredis.NewClient(&goredis.Options{Addr: s.addr()})
		role := client.Do(ctx, "ROLE").Val().([]any)[0]
		client.Close()
		if role == "master" {
			return s
		}
	}
	t.Fatal("no master")
	return nil
}
