package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// refusals are ways for a server to lease nothing, each with its end, and what it says.
var refusals = map[string]struct {
	says       string
	begin, end func(*testing.T, server)
}{
	"permission": {
		"NOPERM",
		func(t *testing.T, s server) { do(t, s, "ACL", "SETUSER", "default", "-evalsha") },
		func(t *testing.T, s server) { do(t, s, "ACL", "SETUSER", "default", "+@all") },
	},
	"disk": {
		"MISCONF",
		func(t *testing.T, s server) {
			require.NoError(t, os.Mkdir(filepath.Join(s.Dir, "dump.rdb"), 0o700)) // no file can take its place
			do(t, s, "CONFIG", "SET", "save", "3600 1")
			do(t, s, "BGSAVE")
			require.Eventually(t, func() bool {
				return strings.Contains(s.client(t).Info(ctx, "persistence").Val(), "rdb_last_bgsave_status:err")
			}, time.Minute, 10*time.Millisecond)
		},
		func(t *testing.T, s server) { do(t, s, "CONFIG", "SET", "save", "") },
	},
}

func do(t *testing.T, s server, command ...any) {
	require.NoError(t, s.client(t).Do(ctx, command...).Err())
}

// serving runs a center on an engine that handles orders, and logs to log. It counts the tasks that have run.
func serving(t *testing.T, e *redis.Engine, log *logtest.Log) (ran *atomic.Int64) {
	t.Helper()
	center, err := timeout.New(e, timeout.Config{Poll: 20 * time.Millisecond, Logger: log.Logger(slog.LevelInfo)})
	require.NoError(t, err)
	ran = new(atomic.Int64)
	require.NoError(t, center.Handle("orders", func(context.Context, engine.Task) error { ran.Add(1); return nil }))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- center.Run(running) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended); require.NoError(t, center.Close()) })
	require.Eventually(t, func() bool {
		stats := center.Stats()
		return len(stats) == 1 && len(stats[0].Slots) == 16
	}, time.Minute, time.Millisecond)
	return ran
}

// has waits until so many tasks have run.
func has(t *testing.T, ran *atomic.Int64, want int) {
	t.Helper()
	require.Eventually(t, func() bool { return ran.Load() == int64(want) }, time.Minute, time.Millisecond)
}

// Only one of several servers refuses. The log has it once, not per question.
func TestAServerOfAClusterThatRefusesIsLoggedOnce(t *testing.T) {
	t.Parallel()
	cluster, servers := startCluster(t, 3, 0)
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			var log logtest.Log
			e := openEngine(t, servers[0], redis.Config{PollInterval: -1})
			withTopic(t, e, engine.Topic{Slots: 16})
			victim, refuses := spare(t, cluster, e.Prefix())
			ran := serving(t, e, &log)
			waits := ""
			for slot := range refuses {
				waits = inSlot(slot, 16)
			}
			set(t, e, engine.Task{ID: "first"})
			has(t, ran, 1)
			set(t, e, engine.Task{ID: waits, After: time.Second})
			require.Empty(t, log.String())
			refusal.begin(t, victim)

			others := 0
			for i := range 40 {
				if id := fmt.Sprint(i); !refuses[engine.Slot(id, 16)] {
					set(t, e, engine.Task{ID: id})
					others++
				}
				time.Sleep(50 * time.Millisecond)
			}
			has(t, ran, 1+others)
			require.Len(t, log.Lines("topic=orders"), 1, log.String())
			log.Await(t, "level=WARN.* fails.* topic=orders part=.* err=.*"+victim.Addr+".*"+refusal.says)

			refusal.end(t, victim)
			has(t, ran, 2+others)
			log.Await(t, "level=INFO.* answers again.* topic=orders part=")
			require.Len(t, log.Lines("topic=orders"), 2, log.String())
		})
	}
}

// One slot of a server is broken, and its other slots answer.
func TestASlotThatFailsIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log logtest.Log
	server := sharedServer(t)
	e := openEngine(t, server, redis.Config{PollInterval: -1})
	withTopic(t, e, engine.Topic{Slots: 16})
	bad := inSlot(0, 16)
	set(t, e, engine.Task{ID: bad})
	lease(t, e, time.Hour)
	mend := breakSlot(t, server, e, bad)
	ran := serving(t, e, &log)
	for i := range 40 {
		set(t, e, engine.Task{ID: "{" + inSlot(1+i%15, 16) + "}" + fmt.Sprint(i)})
		time.Sleep(50 * time.Millisecond)
	}
	require.Len(t, log.Lines("topic=orders"), 1, log.String())
	log.Await(t, "level=WARN.* fails.* topic=orders err=.*"+server.Addr+".*WRONGTYPE")
	require.Positive(t, ran.Load())
	mend()
	log.Await(t, "level=INFO.* answers again")
	require.Len(t, log.Lines("topic=orders"), 2, log.String())
}

// A server is silent until its caller's time is over. That is a failure.
func TestAServerThatStaysSilentIsLogged(t *testing.T) {
	t.Parallel()
	cluster := testserver.RedisCluster(t, 3, 0)
	var log logtest.Log
	at := server{cluster.Nodes[0]}
	at.URL += "?read_timeout=1s"
	e := openEngine(t, at, redis.Config{PollInterval: -1})
	withTopic(t, e, engine.Topic{Slots: 16})
	victim, _ := spare(t, cluster, e.Prefix())
	serving(t, e, &log)
	victim.Pause(t)
	log.Await(t, "level=WARN.* fails.* topic=orders part=.* err=.*"+victim.Addr)
	victim.Continue(t)
	log.Await(t, "level=INFO.* answers again.* topic=orders part=")
	require.Len(t, log.Lines("topic=orders"), 2, log.String())
}
