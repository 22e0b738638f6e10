package redis_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
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
	servers := startCluster(t, 3, 0)
	engine := openEngine(t, servers[0], redis.Config{})
	withTopic(t, engine, timeout.Topic{Slots: 4})
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		count := 0
		for {
			select {
			case <-stop:
				done <- count
				return
			default:
			}
			answers, err := engine.Set(ctx, []timeout.Task{{Topic: "orders", ID: fmt.Sprint(count)}, {Topic: "orders", ID: fmt.Sprint(count + 1)}})
			if err == nil && answers[0].Err == nil {
				count += 2
			} else {
				t.Errorf("set %d: %v %v", count, err, answers)
				done <- count
				return
			}
		}
	}()
	moveSlots(t, servers[0], servers[1], 2000)
	moveSlots(t, servers[1], servers[2], 2000)
	close(stop)
	count := <-done
	counts, err := engine.Count(ctx, "orders")
	require.NoError(t, err)
	require.EqualValues(t, count, counts.Pending)
	require.Positive(t, count)
}

func moveSlots(t *testing.T, from, to *server, count int) {
	t.Helper()
	id := func(s *server) string { return s.client(t).Do(ctx, "CLUSTER", "MYID").Val().(string) }
	out, err := exec.Command("redis-cli", "--cluster", "reshard", from.addr(), "--cluster-from", id(from), "--cluster-to", id(to),
		"--cluster-slots", fmt.Sprint(count), "--cluster-yes").CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestAServerOfAClusterFailsOver(t *testing.T) {
	servers := startCluster(t, 3, 1)
	engine := openEngine(t, servers[0], redis.Config{})
	withTopic(t, engine, timeout.Topic{Slots: 16})
	var tasks []timeout.Task
	for i := range 1000 {
		tasks = append(tasks, timeout.Task{Topic: "orders", ID: fmt.Sprint(i)})
	}
	_, err := engine.Set(ctx, tasks)
	require.NoError(t, err)
	time.Sleep(200 * time.Millisecond) // for the replicas
	victim := master(t, servers)
	victim.kill()
	fired := map[string]bool{}
	var settle []timeout.Outcome
	require.Eventually(t, func() bool {
		batch, err := engine.Expire(ctx, timeout.Ask{Topic: "orders", Node: "n", Settle: settle, Max: 100, Lease: 3 * time.Second})
		if err != nil {
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
