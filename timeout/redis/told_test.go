package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
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

// Only one of several servers refuses. Expire has no error then, so the log has it: once, not per question.
func TestAServerOfAClusterThatRefusesIsLoggedOnce(t *testing.T) {
	t.Parallel()
	cluster, servers := startCluster(t, 3, 0)
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			var log logtest.Log
			e := openEngine(t, servers[0], redis.Config{PollInterval: -1, Logger: log.Logger(slog.LevelInfo)})
			withTopic(t, e, engine.Topic{Slots: 16})
			victim, refuses := spare(t, cluster, e.Prefix())
			expire(t, e, engine.Ask{Max: 10})
			require.Empty(t, log.String())
			waits := ""
			for slot := range refuses {
				waits = inSlot(slot, 16)
			}
			set(t, e, engine.Task{ID: waits})
			refusal.begin(t, victim)

			leased := 0
			for i := range 40 {
				if id := fmt.Sprint(i); !refuses[engine.Slot(id, 16)] {
					set(t, e, engine.Task{ID: id})
					leased++
				}
				leased -= len(expire(t, e, engine.Ask{Max: 10}).Leased)
			}
			require.Zero(t, leased, "the others are not held up")
			require.Len(t, log.Lines(""), 1, log.String())
			log.Await(t, "level=WARN.* fails.* topic=orders server="+victim.Addr+" err=.*"+refusal.says)

			refusal.end(t, victim)
			require.Equal(t, waits, lease(t, e, time.Minute).ID)
			expire(t, e, engine.Ask{Max: 10})
			require.Len(t, log.Lines(""), 2, log.String())
			log.Await(t, "fails no more.* topic=orders server="+victim.Addr)
		})
	}
}

// onABrokenSlot returns an engine of one server, with a topic of so many slots. One of them is broken, until mend.
func onABrokenSlot(t *testing.T, bad, slots int, poll time.Duration) (e *redis.Engine, log *logtest.Log, addr string, mend func()) {
	log = &logtest.Log{}
	server := sharedServer(t)
	e = openEngine(t, server, redis.Config{PollInterval: poll, Logger: log.Logger(slog.LevelInfo)})
	withTopic(t, e, engine.Topic{Slots: slots})
	id := inSlot(bad, slots)
	set(t, e, engine.Task{ID: id})
	lease(t, e, time.Minute)
	return e, log, server.Addr, breakSlot(t, server, e, id)
}

// One slot of a server is broken, and its other slots answer.
func TestASlotThatFailsIsLoggedOnce(t *testing.T) {
	t.Parallel()
	e, log, addr, mend := onABrokenSlot(t, 0, 2, -1)
	for range 5 {
		expire(t, e, engine.Ask{Max: 10})
	}
	require.Len(t, log.Lines(""), 1, log.String())
	log.Await(t, "level=WARN.* server="+addr+" err=.*WRONGTYPE")
	mend()
	expire(t, e, engine.Ask{Max: 10})
	expire(t, e, engine.Ask{Max: 10})
	require.Len(t, log.Lines(""), 2, log.String())
	require.Len(t, log.Lines("level=INFO"), 1)
}

// Several nodes may share an engine, each with slots of its own, and the slots of a node change. Whoever has no slot that
// failed knows nothing of its server.
func TestOnlyTheSlotsOfAServerTellThatItFailsNoMore(t *testing.T) {
	t.Parallel()
	e, log, _, mend := onABrokenSlot(t, 0, 3, -1)
	for range 5 {
		expire(t, e, engine.Ask{Max: 10, Slots: []int{0, 1}})
		expire(t, e, engine.Ask{Max: 10, Slots: []int{2}})
	}
	require.Len(t, log.Lines(""), 1, log.String())
	mend()
	expire(t, e, engine.Ask{Max: 10, Slots: []int{2}})
	require.Len(t, log.Lines(""), 1, log.String())
	expire(t, e, engine.Ask{Max: 10, Slots: []int{0, 1}})
	require.Len(t, log.Lines(""), 2, log.String())
	log.Await(t, "fails no more")
}

// A call whose caller waits no longer says nothing about the server, not even that it fails no more.
func TestACancelledCallDoesNotTellThatAServerFailsNoMore(t *testing.T) {
	t.Parallel()
	e, log, _, mend := onABrokenSlot(t, 1, 2, 0)
	ask := engine.Ask{Topic: "orders", Node: "node-1", Max: 10, Lease: time.Minute}
	lines := func(n int) func() bool {
		return func() bool {
			_, _ = e.Expire(ctx, ask) // an error if it asks the bad slot alone
			return len(log.Lines("")) == n
		}
	}
	require.Eventually(t, lines(1), time.Minute, 50*time.Millisecond)
	time.Sleep(300 * time.Millisecond) // both slots are asked again
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := e.Expire(cancelled, ask)
	require.ErrorIs(t, err, context.Canceled)
	expire(t, e, ask) // the first slot, while the other one is left alone
	require.Len(t, log.Lines(""), 1, log.String())
	mend()
	require.Eventually(t, lines(2), time.Minute, 50*time.Millisecond)
	log.Await(t, "fails no more")
}

// The tasks of a slot may wait, or it fails in turns with another one. The server fails all the while.
func TestAServerThatFailsInOneSlotAfterAnotherIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log logtest.Log
	server := sharedServer(t)
	e := openEngine(t, server, redis.Config{PollInterval: -1, Logger: log.Logger(slog.LevelInfo)})
	withTopic(t, e, engine.Topic{Slots: 2})
	first, second := inSlot(0, 2), inSlot(1, 2)
	set(t, e, engine.Task{ID: first})
	set(t, e, engine.Task{ID: second})
	require.Len(t, expire(t, e, engine.Ask{Max: 10, Lease: time.Hour}).Leased, 2)
	mend := breakSlot(t, server, e, first)
	expire(t, e, engine.Ask{Max: 10})
	require.Len(t, log.Lines(""), 1, log.String())
	mend()
	mend = breakSlot(t, server, e, second)
	expire(t, e, engine.Ask{Max: 10})
	require.Len(t, log.Lines(""), 1, log.String())
	mend()
	expire(t, e, engine.Ask{Max: 10})
	require.Len(t, log.Lines(""), 2, log.String())
	log.Await(t, "fails no more")
}

// The caller's time has ended, not the server's.
func TestACallWhoseTimeIsOverDoesNotTellThatAServerFails(t *testing.T) {
	t.Parallel()
	var log logtest.Log
	e := openEngine(t, sharedServer(t), redis.Config{Logger: log.Logger(slog.LevelInfo)})
	withTopic(t, e, engine.Topic{Slots: 2})
	ask := engine.Ask{Topic: "orders", Node: "node-1", Max: 10, Lease: time.Minute}
	expire(t, e, ask)
	time.Sleep(300 * time.Millisecond) // both slots are asked again
	over, cancel := context.WithDeadline(ctx, time.Now())
	defer cancel()
	_, err := e.Expire(over, ask)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	expire(t, e, ask)
	require.Empty(t, log.String())
}

// A server is silent until its caller's time is over. That is a failure: the caller has left it with its question.
func TestAServerThatStaysSilentIsLogged(t *testing.T) {
	t.Parallel()
	cluster, servers := startCluster(t, 3, 0)
	var log logtest.Log
	e := openEngine(t, servers[0], redis.Config{PollInterval: -1, Logger: log.Logger(slog.LevelInfo)})
	withTopic(t, e, engine.Topic{Slots: 16})
	victim, _ := spare(t, cluster, e.Prefix())
	expire(t, e, engine.Ask{Max: 10})
	victim.Pause(t)
	defer victim.Continue(t)
	require.Eventually(t, func() bool {
		within, cancel := context.WithTimeout(ctx, time.Second) // less than the client waits
		defer cancel()
		_, err := e.Expire(within, engine.Ask{Topic: "orders", Node: "node-1", Max: 10, Lease: time.Hour})
		return err == nil && len(log.Lines("")) == 1
	}, time.Minute, 10*time.Millisecond)
	log.Await(t, "level=WARN.* fails.* server="+victim.Addr)
}
