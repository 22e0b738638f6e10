package redis_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
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
		batch, err := e.Lease(ctx, engine.Ask{Topic: "orders", Node: "n", Max: tasks, Lease: time.Minute})
		require.NoError(t, err)
		require.Len(t, batch.Leased, tasks)
		dead := make([]engine.Outcome, tasks)
		for i, leased := range batch.Leased {
			l := number{leased.ID, leased.Token.Lease}
			require.False(t, leases[l], "lease %v was given before", l)
			leases[l] = true
			dead[i] = engine.Outcome{Token: leased.Token, As: engine.Dead}
		}
		batch, err = e.Lease(ctx, engine.Ask{Topic: "orders", Node: "n", Settle: dead})
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

// An operator has deleted the records of running tasks, or a restore has left them out. The tasks are there: they
// run again at the end of their leases, and the slot goes on.
func TestARunningTaskWithoutItsRecordBeginsAnew(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	e, client := openEngine(t, server, redis.Config{PollInterval: -1}), server.client(t)
	withTopic(t, e, engine.Topic{Slots: 1, Retries: -1})
	setAll(t, e, batchOf("orders", "a", 5, 0))
	tokens := map[string]engine.Token{}
	for _, leased := range leaseBatch(t, e, engine.Ask{Max: 5, Lease: time.Hour}).Leased {
		tokens[leased.ID] = leased.Token
	}
	records, running := slotKey(t, client, e, "a"), slotKey(t, client, e, "p")
	require.EqualValues(t, 4, client.HDel(ctx, records, "a-1", "a-2", "a-3", "a-4").Val())
	far := float64(time.Now().Add(1000 * time.Hour).UnixMilli()) // as if the clock was stepped back
	ended := []goredis.Z{{Score: 1, Member: "a-1"}, {Score: 2, Member: "a-2"}, {Score: 3, Member: "a-3"}, {Score: far, Member: "a-4"}}
	require.NoError(t, client.ZAdd(ctx, running, ended...).Err())
	moves, err := e.Move(ctx, []engine.Move{{Key: key("a-2"), After: time.Hour}}) // it has no record, as a waiting one
	require.NoError(t, err)
	require.NoError(t, moves[0].Err)
	set(t, e, engine.Task{ID: "b"})

	done := func(ids ...string) (outcomes []engine.Outcome) {
		for _, id := range ids {
			outcomes = append(outcomes, engine.Outcome{Token: tokens[id], As: engine.Done})
		}
		return outcomes
	}
	batch := leaseBatch(t, e, engine.Ask{Max: 10, Lease: time.Minute, Settle: done("a-0", "a-1", "a-2", "a-3")})
	require.Equal(t, []bool{true, false, false, false}, batch.Settled, "the lease of a lost record is void")
	var ids []string
	for _, leased := range batch.Leased {
		ids = append(ids, leased.ID)
		tokens[leased.ID] = leased.Token
		require.Equal(t, 1, leased.Attempts)
		require.Equal(t, leased.ID != "b", leased.Again)
		if leased.Again {
			require.Equal(t, "timeout: the record of its attempts is lost", leased.Error)
			require.Equal(t, leased.Error, get(t, e, leased.ID).Error)
		}
	}
	require.ElementsMatch(t, []string{"a-1", "a-3", "b"}, ids)
	require.Equal(t, engine.Pending, get(t, e, "a-2").State)
	require.WithinRange(t, get(t, e, "a-4").Until, batch.Now, batch.Now.Add(2*time.Minute), "its lease ends as one of today")
	require.Equal(t, []bool{true, true, true}, leaseBatch(t, e, engine.Ask{Settle: done("a-1", "a-3", "b")}).Settled)
	counts, err := e.Count(ctx, "orders")
	require.NoError(t, err)
	require.Equal(t, engine.Counts{Pending: 1, Running: 1}, counts)
}

// Without its body a task can't run. It is lost, and the log says so. It holds up no other task and no page.
func TestATaskWithoutItsBodyIsLostAndLogged(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	var log logtest.Log
	e, client := openEngine(t, server, redis.Config{PollInterval: -1, Logger: log.Logger(slog.LevelWarn)}), server.client(t)
	withTopic(t, e, engine.Topic{Slots: 1, Retain: time.Hour})
	outcome := map[string]engine.State{"dead": engine.Dead, "dead-2": engine.Dead, "done": engine.Done, "failed": engine.Pending}
	for _, id := range []string{"dead", "dead-2", "done", "failed", "over", "runs"} {
		set(t, e, engine.Task{ID: id})
		if as, ended := outcome[id]; ended {
			require.True(t, settle(t, e, engine.Outcome{Token: lease(t, e, time.Hour).Token, As: as, After: time.Hour, Error: "broken"}))
		} else {
			lease(t, e, time.Hour)
		}
	}
	set(t, e, engine.Task{ID: "due"})
	set(t, e, engine.Task{ID: "later", After: time.Hour})
	require.NoError(t, client.ZAdd(ctx, slotKey(t, client, e, "p"), goredis.Z{Score: 1, Member: "over"}).Err())
	lost := []string{"dead", "done", "failed", "over", "due", "later"}
	require.EqualValues(t, len(lost), client.HDel(ctx, slotKey(t, client, e, "b"), lost...).Val())
	set(t, e, engine.Task{ID: "good"})

	for _, id := range lost {
		require.Equal(t, engine.None, get(t, e, id).State, id)
	}
	for state, want := range map[engine.State][]string{engine.Pending: {"good"}, engine.Running: {"runs"}, engine.Dead: {"dead-2"}, engine.Done: nil} {
		var ids []string
		for query := (engine.Query{Topic: "orders", State: state, Limit: 1}); ; {
			page, err := e.List(ctx, query)
			require.NoError(t, err)
			for _, task := range page.Tasks {
				ids = append(ids, task.ID)
			}
			if query.Cursor = page.Next; page.Next == "" {
				break
			}
		}
		require.Equal(t, want, ids, state)
	}
	keys := make([]engine.Key, len(lost))
	moves := make([]engine.Move, len(lost))
	for i, id := range lost {
		keys[i], moves[i] = key(id), engine.Move{Key: key(id), After: time.Hour}
	}
	for name, call := range map[string]func() ([]engine.Answer, error){
		"Replay": func() ([]engine.Answer, error) { return e.Replay(ctx, keys) },
		"Move":   func() ([]engine.Answer, error) { return e.Move(ctx, moves) },
	} {
		answers, err := call()
		require.NoError(t, err, name)
		require.Equal(t, make([]engine.Answer, len(lost)), answers, name)
	}

	leased := leaseBatch(t, e, engine.Ask{Max: 10, Lease: time.Hour}).Leased
	require.Len(t, leased, 1)
	require.Equal(t, "good", leased[0].ID)
	require.Len(t, log.Lines("tasks are lost"), 1)
	log.Await(t, `level=WARN .*topic=orders count=2 tasks="\[due over\]"`)
	require.Empty(t, leaseBatch(t, e, engine.Ask{Max: 10, Lease: time.Hour}).Leased)
	require.Len(t, log.Lines("tasks are lost"), 1, "once")
	require.Equal(t, engine.None, set(t, e, engine.Task{ID: "failed", IfAbsent: true, After: time.Hour}).Was)
	require.Zero(t, get(t, e, "failed").Attempts)
	answers, err := e.Remove(ctx, []engine.Removal{{Key: key("failed")}, {Key: key("later"), Version: 1}, {Key: key("later")}, {Key: key("done")}})
	require.NoError(t, err)
	require.Equal(t, []engine.State{engine.Pending, engine.Pending, engine.Pending, engine.Done}, []engine.State{answers[0].Was, answers[1].Was, answers[2].Was, answers[3].Was})

	growBefore(t, client, e, 2) // what is lost keeps no topic from being migrated
	for purged := (engine.Purged{More: true}); purged.More; {
		var err error
		purged, err = e.Maintain(ctx)
		require.NoError(t, err)
	}
	counts, err := e.Count(ctx, "orders")
	require.NoError(t, err)
	require.Equal(t, engine.Counts{Running: 2, Dead: 1, Removed: 1}, counts)
	require.Equal(t, engine.None, get(t, e, "later").State)
	for _, id := range lost {
		require.Contains(t, []engine.State{engine.None, engine.Removed}, set(t, e, engine.Task{ID: id, IfAbsent: true}).Was, id)
		require.Equal(t, 0, get(t, e, id).Calls)
	}
}
