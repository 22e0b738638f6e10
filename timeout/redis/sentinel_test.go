package redis_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// A client of Sentinels follows the master: what the replica had before the master was killed runs on the new one, and what is
// set there as well.
func TestAServerOfSentinelsFailsOver(t *testing.T) {
	t.Parallel()
	master := startServer(t)
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	replica := startServer(t, "--replicaof", host+" "+port)
	var addrs []string
	for _, s := range testserver.Sentinels(t, master.Server) {
		addrs = append(addrs, s.Addr)
	}
	client := goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: "watched", SentinelAddrs: addrs, MaxRetries: -1, DialTimeout: time.Minute, ReadTimeout: time.Minute,
	})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	e, err := redis.New(client, redis.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })

	c, err := timeout.New(e, timeout.Config{Topic: timeout.Topic{Lease: 3 * time.Second}})
	require.NoError(t, err)
	var mu sync.Mutex
	ran := make(map[string]bool)
	require.NoError(t, c.Handle("orders", func(_ context.Context, task timeout.Task) error {
		mu.Lock()
		defer mu.Unlock()
		ran[task.ID] = true
		return nil
	}))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(running) }()
	defer func() { stop(); require.NoError(t, <-ended) }()

	var tasks []engine.Task
	for i := range 100 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i), After: 4 * time.Second})
	}
	_, err = c.SetAll(ctx, tasks)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // the replica has all
		info, err := master.client(t).InfoMap(ctx, "replication").Result()
		fields := info["Replication"]
		return err == nil && strings.Contains(fields["slave0"], ",offset="+fields["master_repl_offset"]+",")
	}, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { // and the Sentinels know it, and one another
		for _, addr := range addrs {
			sentinel := goredis.NewSentinelClient(&goredis.Options{Addr: addr})
			known, err := sentinel.Master(ctx, "watched").Result()
			sentinel.Close()
			if err != nil || known["num-slaves"] != "1" || known["num-other-sentinels"] != "2" {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond)
	master.Kill(t)
	require.Eventually(t, func() bool {
		_, err := c.Set(ctx, timeout.Task{Topic: "orders", ID: "later"})
		return err == nil
	}, time.Minute, 100*time.Millisecond, "the replica takes over")
	role, err := replica.client(t).Do(ctx, "ROLE").Slice()
	require.NoError(t, err)
	require.Equal(t, "master", role[0])
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(ran) == len(tasks)+1
	}, time.Minute, 10*time.Millisecond)
}
