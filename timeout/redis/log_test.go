package redis_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// logs is an engine that keeps so many executions, with a topic of one partition.
func logs(t testing.TB, s server, executions int) *redis.Engine {
	t.Helper()
	e := openEngine(t, s, redis.Config{PollInterval: -1, Executions: executions})
	withTopic(t, e, engine.Topic{Slots: 1, Retain: time.Hour})
	return e
}

// fail sets tasks that are not there, and has one more attempt at each fail.
func fail(t testing.TB, e *redis.Engine, text string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		set(t, e, engine.Task{ID: id, IfAbsent: true})
	}
	endAll(t, e, engine.Outcome{As: engine.Pending, Error: text}, ids...)
}

// endAll leases tasks, which must be all that are due, and settles them.
func endAll(t testing.TB, e *redis.Engine, outcome engine.Outcome, ids ...string) {
	t.Helper()
	var outcomes []engine.Outcome
	for _, leased := range leaseBatch(t, e, engine.Ask{Max: len(ids) + 1}).Leased {
		outcome.Token = leased.Token
		outcomes = append(outcomes, outcome)
	}
	require.Len(t, outcomes, len(ids))
	require.NotContains(t, leaseBatch(t, e, engine.Ask{Settle: outcomes}).Settled, false)
}

func executions(t testing.TB, e *redis.Engine, id string) []engine.Execution {
	t.Helper()
	log, err := e.Executions(ctx, key(id), engine.MaxPage)
	require.NoError(t, err)
	return log
}

// errorsOf returns the errors of a log, the latest first.
func errorsOf(log []engine.Execution) (texts []string) {
	for _, x := range log {
		texts = append(texts, x.Error)
	}
	return texts
}

// fieldsKey is the key of the first partition's own fields, with the logs.
func fieldsKey(e *redis.Engine) string { return strings.TrimSuffix(e.SlotKey("orders", 0), "s") + "m" }

// keptLogs returns the ids of the tasks with a log in the first partition.
func keptLogs(t testing.TB, client goredis.UniversalClient, e *redis.Engine) (ids []string) {
	t.Helper()
	for _, field := range client.HKeys(ctx, fieldsKey(e)).Val() {
		if id, ok := strings.CutPrefix(field, "\x02"); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestALogKeepsTheLastAttempts(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 3, redis.MaxExecutions} {
		t.Run(fmt.Sprint("executions=", most), func(t *testing.T) {
			t.Parallel()
			e := logs(t, sharedServer(t), most)
			var want []string
			for i := range most + 2 {
				text := fmt.Sprint("failure ", i)
				fail(t, e, text, "1")
				want = slices.Insert(want, 0, text)
				want = want[:min(len(want), most)]
				require.Equal(t, want, errorsOf(executions(t, e, "1")))
			}
			newest, err := e.Executions(ctx, key("1"), 1)
			require.NoError(t, err)
			require.Equal(t, want[:1], errorsOf(newest))
			require.Equal(t, most+2, newest[0].Attempt)
			for _, limit := range []int{0, -1} {
				none, err := e.Executions(ctx, key("1"), limit)
				require.NoError(t, err)
				require.Empty(t, none)
			}
		})
	}
}

// A script rewrites the logs of many tasks: none may be large.
func TestALogOfLongErrorsKeepsFewerAttempts(t *testing.T) {
	t.Parallel()
	e := logs(t, sharedServer(t), redis.MaxExecutions)
	for i := range 40 {
		fail(t, e, fmt.Sprintf("%d %s", i, strings.Repeat("e", engine.MaxError)), "1")
	}
	log := executions(t, e, "1")
	require.Greater(t, len(log), 12)
	require.Less(t, len(log), 20)
	for i, x := range log {
		require.Equal(t, 40-i, x.Attempt)
	}
	require.Less(t, sharedServer(t).client(t).HStrLen(ctx, fieldsKey(e), "\x021").Val(), int64(17<<10))
	for i := range redis.MaxExecutions {
		fail(t, e, fmt.Sprint(i), "1")
	}
	require.Equal(t, "0", executions(t, e, "1")[redis.MaxExecutions-1].Error, "short ones take their places")
}

// Nodes may have different settings: a log follows the last one that added to it.
func TestEachEngineKeepsAsManyAttemptsAsItIsTold(t *testing.T) {
	t.Parallel()
	five := logs(t, sharedServer(t), 5)
	as := func(executions int) *redis.Engine {
		return openEngine(t, sharedServer(t), redis.Config{Prefix: five.Prefix(), PollInterval: -1, Executions: executions})
	}
	two, none := as(2), as(0)
	for i := range 5 {
		fail(t, five, fmt.Sprint(i), "1")
	}
	fail(t, none, "left out", "1")
	require.Equal(t, []string{"4", "3", "2", "1", "0"}, errorsOf(executions(t, two, "1")))
	fail(t, two, "two", "1")
	require.Equal(t, []string{"two", "4"}, errorsOf(executions(t, five, "1")))
	fail(t, five, "five", "1")
	require.Equal(t, []string{"five", "two", "4"}, errorsOf(executions(t, five, "1")))

	set(t, none, engine.Task{ID: "1"})
	require.Empty(t, executions(t, five, "1"))
	require.Empty(t, keptLogs(t, sharedServer(t).client(t), five), "an engine without a log deletes those of others")
}

func TestWithoutExecutionsThereIsNoLogAndAClearError(t *testing.T) {
	t.Parallel()
	e := logs(t, sharedServer(t), 0)
	require.False(t, engine.Logs(e))
	fail(t, e, "broken", "1")
	_, err := e.Executions(ctx, key("1"), 1)
	require.ErrorIs(t, err, engine.ErrUnsupported)
	require.ErrorContains(t, err, "Executions of redis.Config is 0, must be 1 to 100")
	require.Empty(t, sharedServer(t).client(t).HGet(ctx, fieldsKey(e), "logs").Val())
	for _, wrong := range []int{-1, redis.MaxExecutions + 1} {
		_, err := redis.Open(ctx, sharedServer(t).URL, redis.Config{Executions: wrong})
		require.ErrorIs(t, err, engine.ErrArgument)
		require.ErrorContains(t, err, fmt.Sprintf("Executions %d, must be 0 to 100", wrong))
		_, err = redis.New(sharedServer(t).client(t), redis.Config{Executions: wrong})
		require.ErrorIs(t, err, engine.ErrArgument)
	}
}

func TestALogHasAllOfALongOrStrangeAttempt(t *testing.T) {
	t.Parallel()
	e := logs(t, sharedServer(t), 2)
	for name, want := range map[string]engine.Execution{
		"empty":       {},
		"long":        {Node: strings.Repeat("n", 255), Error: strings.Repeat("e", engine.MaxError)},
		"any bytes":   {Node: "\x00\xff\n", Error: "\x00\n\u2028 \x01\x02"},
		"before 1970": {Started: time.Unix(-9e9, 1000), Took: -time.Second},
		"far":         {Started: time.UnixMicro(1<<62 + 1), Took: 1<<63 - 1},
	} {
		version := set(t, e, engine.Task{ID: name}).Version
		leased := leaseBatch(t, e, engine.Ask{Node: want.Node, Max: 1}).Leased
		if want.Node == "" { // as leaseBatch has it
			want.Node = "node-1"
		}
		require.True(t, settle(t, e, engine.Outcome{Token: leased[0].Token, As: engine.Dead, Error: want.Error, Started: want.Started, Took: want.Took}))
		want.Version, want.Attempt, want.As = version, 1, engine.Dead
		log := executions(t, e, name)
		require.Len(t, log, 1, name)
		require.True(t, want.Started.Equal(log[0].Started), name)
		log[0].Started = want.Started
		require.Equal(t, []engine.Execution{want}, log, name)
	}
	longer := engine.Outcome{As: engine.Dead, Error: strings.Repeat("e", engine.MaxError+1) + "\xff"}
	set(t, e, engine.Task{ID: "longer"})
	endAll(t, e, longer, "longer")
	require.Equal(t, longer.Error[:engine.MaxError], executions(t, e, "longer")[0].Error)
}

// A lease that ends is an attempt that failed. Nobody knows when it began.
func TestALogHasTheAttemptsOfEndedLeases(t *testing.T) {
	t.Parallel()
	e := logs(t, sharedServer(t), 3)
	version := set(t, e, engine.Task{ID: "1"}).Version
	lost := leaseBatch(t, e, engine.Ask{Node: "lost", Max: 1, Lease: time.Millisecond}).Leased
	require.Eventually(t, func() bool { return len(leaseBatch(t, e, engine.Ask{Max: 1}).Leased) == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, []engine.Execution{{
		Version: version, Attempt: 1, Node: "lost", As: engine.Pending, Error: engine.LeaseEnded("lost", 1),
	}}, executions(t, e, "1"))
	require.False(t, settle(t, e, engine.Outcome{Token: lost[0].Token, As: engine.Dead}))
	require.Len(t, executions(t, e, "1"), 1)

	// Without a record of its attempts nobody knows whose it was.
	client := sharedServer(t).client(t)
	records := strings.TrimSuffix(fieldsKey(e), "m") + "a"
	require.NoError(t, client.HDel(ctx, records, "1").Err())
	require.NoError(t, client.ZAdd(ctx, strings.TrimSuffix(fieldsKey(e), "m")+"p", goredis.Z{Score: 1, Member: "1"}).Err())
	require.Len(t, leaseBatch(t, e, engine.Ask{Max: 1}).Leased, 1)
	require.Len(t, executions(t, e, "1"), 1)
}

// More attempts end in one call than one script logs, of large tasks as well.
func TestManyAttemptsAreLoggedInOneCall(t *testing.T) {
	t.Parallel()
	e := logs(t, sharedServer(t), 2)
	var tasks []engine.Task
	for i := range 200 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i), Payload: make([]byte, 5000)})
	}
	_, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	for count := 0; count < len(tasks); {
		count += len(leaseBatch(t, e, engine.Ask{Max: len(tasks) - count, Lease: time.Second}).Leased)
	}
	time.Sleep(time.Second)
	var outcomes []engine.Outcome
	for len(outcomes) < len(tasks) {
		for _, leased := range leaseBatch(t, e, engine.Ask{Max: len(tasks)}).Leased {
			require.True(t, leased.Again)
			outcomes = append(outcomes, engine.Outcome{Token: leased.Token, As: engine.Pending, After: time.Hour, Error: leased.ID})
		}
	}
	require.NotContains(t, leaseBatch(t, e, engine.Ask{Settle: outcomes}).Settled, false)
	for _, task := range tasks {
		require.Equal(t, []string{task.ID, engine.LeaseEnded("node-1", 1)}, errorsOf(executions(t, e, task.ID)))
	}
}

// Each way to delete a task, with its log.
func TestALogGoesWithItsTask(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(t *testing.T, e *redis.Engine){
		"done": func(t *testing.T, e *redis.Engine) { endAll(t, e, engine.Outcome{As: engine.Done}, "1") },
		"removed": func(t *testing.T, e *redis.Engine) {
			require.NoError(t, err1(e.Remove(ctx, []engine.Removal{{Key: key("1")}})))
		},
		"purged": func(t *testing.T, e *redis.Engine) {
			withTopic(t, e, engine.Topic{Slots: 1, Retain: 2 * time.Millisecond, RetainDead: time.Millisecond})
			endAll(t, e, engine.Outcome{As: engine.Dead}, "1")
			require.Len(t, executions(t, e, "1"), 2)
			time.Sleep(2 * time.Millisecond)
			require.NoError(t, err1(e.Maintain(ctx)))
		},
		"lost": func(t *testing.T, e *redis.Engine) {
			require.NoError(t, sharedServer(t).client(t).HDel(ctx, strings.TrimSuffix(fieldsKey(e), "m")+"b", "1").Err())
			require.Empty(t, executions(t, e, "1"), "there is no task")
			_, err := e.Lease(ctx, engine.Ask{Topic: "orders", Max: 1, Lease: time.Minute})
			require.ErrorContains(t, err, "have lost their bodies")
		},
		"set": func(t *testing.T, e *redis.Engine) { set(t, e, engine.Task{ID: "1"}) },
		"set after an earlier version has deleted it": func(t *testing.T, e *redis.Engine) {
			of := strings.TrimSuffix(fieldsKey(e), "m")
			client := sharedServer(t).client(t)
			require.NoError(t, client.ZRem(ctx, of+"s", "1").Err())
			require.NoError(t, client.HDel(ctx, of+"b", "1").Err())
			require.NoError(t, client.HDel(ctx, of+"a", "1").Err())
			require.Equal(t, engine.None, set(t, e, engine.Task{ID: "1"}).Was)
		},
		"set, with another that stays": func(t *testing.T, e *redis.Engine) {
			fail(t, e, "stays", "1", "2")
			answers, err := e.Set(ctx, []engine.Task{{Topic: "orders", ID: "2", IfAbsent: true}, {Topic: "orders", ID: "1"}})
			require.NoError(t, err)
			require.Equal(t, engine.Pending, answers[0].Was)
			require.Equal(t, []string{"stays"}, errorsOf(executions(t, e, "2")))
			set(t, e, engine.Task{ID: "2"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := openEngine(t, sharedServer(t), redis.Config{PollInterval: -1, Executions: 5})
			withTopic(t, e, engine.Topic{Slots: 1})
			fail(t, e, "broken", "1")
			require.Len(t, executions(t, e, "1"), 1)
			client := sharedServer(t).client(t)
			require.Equal(t, []string{"1"}, keptLogs(t, client, e))
			remove(t, e)
			require.Empty(t, executions(t, e, "1"))
			require.Empty(t, keptLogs(t, client, e))
		})
	}
}

func TestALogGoesWithItsTopic(t *testing.T) {
	t.Parallel()
	e := logs(t, sharedServer(t), 5)
	fail(t, e, "broken", "1")
	client, fields := sharedServer(t).client(t), fieldsKey(e)
	require.NoError(t, e.DropTopic(ctx, "orders"))
	require.Empty(t, executions(t, e, "1"))
	require.ElementsMatch(t, []string{"n", "z"}, client.HKeys(ctx, fields).Val())
	withTopic(t, e, engine.Topic{Slots: 1})
	require.Empty(t, executions(t, e, "1"))
}

func TestAnAttemptStaysForRetainLogOfItsTopic(t *testing.T) {
	t.Parallel()
	e := logs(t, sharedServer(t), 5)
	client := sharedServer(t).client(t)
	fail(t, e, "first", "1")
	withTopic(t, e, engine.Topic{Slots: 1, RetainLog: time.Millisecond})
	require.Eventually(t, func() bool { return len(executions(t, e, "1")) == 0 }, time.Minute, time.Millisecond)
	require.NotEmpty(t, keptLogs(t, client, e), "its bytes go with the next attempt")
	withTopic(t, e, engine.Topic{Slots: 1, RetainLog: time.Hour})
	require.Equal(t, []string{"first"}, errorsOf(executions(t, e, "1")))

	withTopic(t, e, engine.Topic{Slots: 1, RetainLog: time.Millisecond})
	time.Sleep(2 * time.Millisecond)
	fail(t, e, "second", "1")
	withTopic(t, e, engine.Topic{Slots: 1, RetainLog: time.Hour})
	require.Equal(t, []string{"second"}, errorsOf(executions(t, e, "1")))
}

// More slots move no task. A topic that was being moved by a version before takes its logs along.
func TestALogStaysThroughGrowing(t *testing.T) {
	t.Parallel()
	var ids []string
	for i := range 300 {
		ids = append(ids, fmt.Sprint(i))
	}
	s := startServer(t)
	for name, grow := range map[string]func(t *testing.T, e *redis.Engine){
		"more slots":     func(t *testing.T, e *redis.Engine) { withTopic(t, e, engine.Topic{Slots: 8, Retain: time.Hour}) },
		"version before": func(t *testing.T, e *redis.Engine) { growBefore(t, s.client(t), e, 4) },
	} {
		t.Run(name, func(t *testing.T) {
			e := logs(t, s, 5)
			fail(t, e, "first", ids...)
			fail(t, e, "second", ids...)
			grow(t, e)
			again := openEngine(t, s, redis.Config{Prefix: e.Prefix(), PollInterval: -1, Executions: 5})
			for _, id := range ids {
				require.Equal(t, []string{"second", "first"}, errorsOf(executions(t, again, id)), id)
			}
			fail(t, again, "third", ids...)
			require.Equal(t, []string{"third", "second", "first"}, errorsOf(executions(t, e, "0")))
		})
	}
}

// Logs grow while at most three quarters of the memory are in use: they fill no server, even those of waiting tasks.
func TestLogsOfWaitingTasksLeaveRoomForSets(t *testing.T) {
	t.Parallel()
	s := startServer(t, small...)
	e := openEngine(t, s, redis.Config{PollInterval: -1, Executions: 20})
	withTopic(t, e, engine.Topic{Slots: 1, Retain: time.Hour})
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
		set(t, e, engine.Task{ID: ids[i]})
	}
	most := s.info(t, "memory", "maxmemory")
	for range 20 {
		endAll(t, e, engine.Outcome{As: engine.Pending, Error: strings.Repeat("e", engine.MaxError)}, ids...)
	}
	require.Greater(t, s.info(t, "memory", "used_memory"), most/2, "the logs would have more than there is")
	require.Less(t, s.info(t, "memory", "used_memory"), most*9/10)
	require.NotEmpty(t, executions(t, e, "0"))
	set(t, e, engine.Task{ID: "new"})
}

// Logs have most of the memory of a full server. They go with the oldest of the dead tasks, and a lease ends as ever.
func TestAFullServerSettlesWithALogAndMakesRoom(t *testing.T) {
	t.Parallel()
	s := startServer(t, small...)
	e := openEngine(t, s, redis.Config{PollInterval: -1, Executions: 20})
	withTopic(t, e, engine.Topic{Slots: 1, Retain: time.Hour, MaxDead: -1})
	set(t, e, engine.Task{ID: "held"})
	held := lease(t, e, time.Hour)
	long := engine.Outcome{As: engine.Pending, Error: strings.Repeat("e", engine.MaxError)}
	for n := 0; ; n++ {
		tasks := make([]engine.Task, 100)
		ids := make([]string, len(tasks))
		for i := range tasks {
			ids[i] = fmt.Sprint(n, "-", i)
			tasks[i] = engine.Task{Topic: "orders", ID: ids[i], Payload: make([]byte, 4000)}
		}
		answers, err := e.Set(ctx, tasks)
		if err == nil {
			err = answers[0].Err
		}
		if err != nil {
			require.ErrorIs(t, err, engine.ErrFull)
			break
		}
		for range 19 {
			endAll(t, e, long, ids...)
		}
		endAll(t, e, engine.Outcome{As: engine.Dead}, ids...)
	}
	require.True(t, settle(t, e, engine.Outcome{Token: held.Token, As: engine.Dead, Error: "held"}))
	require.Empty(t, executions(t, e, "held"), "there is no room for it")
	before := ended(t, e, "orders")
	require.Eventually(t, func() bool {
		require.NoError(t, err1(e.Maintain(ctx)))
		answers, err := e.Set(ctx, []engine.Task{{Topic: "orders", ID: "room"}})
		return err == nil && answers[0].Err == nil
	}, time.Minute, time.Millisecond)
	require.Less(t, ended(t, e, "orders"), before)
	for _, id := range keptLogs(t, s.client(t), e) {
		require.Equal(t, engine.Dead, get(t, e, id).State, "the log of %s goes with it", id)
	}
	endAll(t, e, engine.Outcome{As: engine.Pending, Error: "logged again"}, "room")
	require.Equal(t, []string{"logged again"}, errorsOf(executions(t, e, "room")))
}

// Somebody else has cut a log. The others go on, and so does its task, with another log.
func TestABrokenLogHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 4, 9, 40} {
		e := logs(t, sharedServer(t), 5)
		client := sharedServer(t).client(t)
		fail(t, e, "first", "1")
		cut := func() {
			log, err := client.HGet(ctx, fieldsKey(e), "\x021").Bytes()
			require.NoError(t, err)
			require.Greater(t, len(log), size)
			require.NoError(t, client.HSet(ctx, fieldsKey(e), "\x021", log[:size]).Err())
		}
		cut()
		set(t, e, engine.Task{ID: "2"})
		endAll(t, e, engine.Outcome{As: engine.Pending, Error: "second"}, "1", "2")
		require.Equal(t, []string{"second"}, errorsOf(executions(t, e, "1")))
		cut()
		leaseBatch(t, e, engine.Ask{Max: 2, Lease: time.Millisecond})
		time.Sleep(5 * time.Millisecond)
		set(t, e, engine.Task{ID: "3"})
		endAll(t, e, engine.Outcome{As: engine.Pending, Error: "third"}, "1", "2", "3")
		require.Len(t, executions(t, e, "1"), 2)
		require.Equal(t, []string{"third"}, errorsOf(executions(t, e, "3")))
	}
}

// Somebody else has changed a log.
func TestABrokenLogIsAnError(t *testing.T) {
	t.Parallel()
	e := logs(t, sharedServer(t), 5)
	client := sharedServer(t).client(t)
	fail(t, e, "broken", "1")
	good, err := client.HGet(ctx, fieldsKey(e), "\x021").Bytes()
	require.NoError(t, err)
	long := slices.Clone(good)
	binary.BigEndian.PutUint16(long[1:], uint16(len(good)))
	for _, log := range [][]byte{good[:len(good)-1], good[:2], append(slices.Clone(good), 0), append(good[:1:1], 0, 1, 0), long} {
		require.NoError(t, client.HSet(ctx, fieldsKey(e), "\x021", log).Err())
		_, err = e.Executions(ctx, key("1"), 5)
		require.ErrorContains(t, err, "log of orders/1")
		require.ErrorContains(t, err, fmt.Sprint(len(log)))
	}
}
