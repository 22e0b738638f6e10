package redis_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

var ctx = context.Background()

func key(id string) engine.Key { return engine.Key{Topic: "orders", ID: id} }

func set(t testing.TB, e engine.Engine, task engine.Task) engine.Answer {
	t.Helper()
	if task.Topic == "" {
		task.Topic = "orders"
	}
	answers, err := e.Set(ctx, []engine.Task{task})
	require.NoError(t, err)
	require.NoError(t, answers[0].Err)
	return answers[0]
}

func get(t testing.TB, e engine.Engine, id string) engine.Task {
	t.Helper()
	tasks, err := e.Get(ctx, []engine.Key{key(id)})
	require.NoError(t, err)
	return tasks[0]
}

func leaseBatch(t testing.TB, e engine.Engine, ask engine.Ask) engine.Batch {
	t.Helper()
	if ask.Topic == "" {
		ask.Topic = "orders"
	}
	if ask.Node == "" {
		ask.Node = "node-1"
	}
	if ask.Lease == 0 {
		ask.Lease = time.Minute
	}
	batch, err := e.Lease(ctx, ask)
	require.NoError(t, err)
	return batch
}

// lease leases one task.
func lease(t testing.TB, e engine.Engine, length time.Duration) engine.Leased {
	t.Helper()
	batch := leaseBatch(t, e, engine.Ask{Max: 1, Lease: length})
	require.Len(t, batch.Leased, 1)
	return batch.Leased[0]
}

func settle(t testing.TB, e engine.Engine, outcome engine.Outcome) bool {
	t.Helper()
	return leaseBatch(t, e, engine.Ask{Settle: []engine.Outcome{outcome}}).Settled[0]
}

func withTopic(t testing.TB, e engine.Engine, topic engine.Topic) {
	t.Helper()
	if topic.Name == "" {
		topic.Name = "orders"
	}
	_, err := e.SetTopic(ctx, topic, false)
	require.NoError(t, err)
}

// orders is an engine with a topic.
func orders(t testing.TB, topic engine.Topic) *redis.Engine {
	t.Helper()
	e := openEngine(t, sharedServer(t), redis.Config{})
	withTopic(t, e, topic)
	return e
}

func TestATaskIsLeasedAndDone(t *testing.T) {
	e := orders(t, engine.Topic{})
	call := &engine.Callback{Kind: "http", Target: "http://x", Header: map[string]string{"a": "b"}}
	answer := set(t, e, engine.Task{ID: "ü \"{1}", Payload: []byte{0, 255, '\n'}, Callback: call})
	require.Equal(t, engine.None, answer.Was)
	before := get(t, e, "ü \"{1}")
	require.Equal(t, engine.Pending, before.State)
	require.Equal(t, answer.Version, before.Version)
	require.Equal(t, []byte{0, 255, '\n'}, before.Payload)
	require.Equal(t, call, before.Callback)
	require.True(t, before.Due.Equal(answer.Due))
	got := lease(t, e, time.Minute)
	require.Equal(t, 1, got.Attempts)
	require.Equal(t, engine.Running, got.State)
	require.Equal(t, call, got.Callback)
	running := get(t, e, "ü \"{1}")
	require.Equal(t, got.Task, running)
	counts, err := e.Count(ctx, "orders")
	require.NoError(t, err)
	require.Equal(t, engine.Counts{Running: 1}, counts)
	require.True(t, settle(t, e, engine.Outcome{Token: got.Token, As: engine.Done}))
	require.False(t, settle(t, e, engine.Outcome{Token: got.Token, As: engine.Done}))
	require.Equal(t, engine.None, get(t, e, "ü \"{1}").State)
}

func TestEveryVerbInEveryState(t *testing.T) {
	states := []engine.State{engine.None, engine.Pending, engine.Running, engine.Done, engine.Dead, engine.Removed}
	has := func(state engine.State, of ...engine.State) bool { return slices.Contains(of, state) }
	for _, state := range states {
		for _, verb := range []string{"set", "set if absent", "move", "remove", "replay"} {
			t.Run(fmt.Sprintf("%s/%v", verb, state), func(t *testing.T) {
				t.Parallel()
				e := orders(t, engine.Topic{Retain: time.Hour, Slots: 1})
				before := into(t, e, state)
				due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
				var answers []engine.Answer
				var err error
				after, grows := state, false
				switch verb {
				case "set", "set if absent":
					answers, err = e.Set(ctx, []engine.Task{{Topic: "orders", ID: "1", Due: due, IfAbsent: verb != "set", Payload: []byte("new")}})
					if verb == "set" || !has(state, engine.Pending, engine.Running, engine.Dead) {
						after, grows = engine.Pending, true
					}
				case "move":
					answers, err = e.Move(ctx, []engine.Move{{Key: key("1"), Due: due}})
					grows = state == engine.Pending
				case "remove":
					answers, err = e.Remove(ctx, []engine.Removal{{Key: key("1")}})
					if has(state, engine.Pending, engine.Running, engine.Dead) {
						after = engine.Removed
					}
				case "replay":
					answers, err = e.Replay(ctx, []engine.Key{key("1")})
					if state == engine.Dead {
						after = engine.Pending
					}
				}
				require.NoError(t, err)
				require.Equal(t, state, answers[0].Was)
				task := get(t, e, "1")
				require.Equal(t, after, task.State)
				if grows {
					require.Greater(t, task.Version, before.Version)
					require.True(t, task.Due.Equal(due))
					require.True(t, answers[0].Due.Equal(due))
					require.Equal(t, task.Version, answers[0].Version)
					if strings.HasPrefix(verb, "set") {
						require.Zero(t, task.Attempts)
						require.Equal(t, "new", string(task.Payload))
					}
				} else if after == state && state != engine.None {
					require.Equal(t, before, task)
					require.Equal(t, before.Version, answers[0].Version)
					require.True(t, before.Due.Equal(answers[0].Due))
				}
			})
		}
	}
}

// into brings task 1 into a state and returns it.
func into(t *testing.T, e engine.Engine, state engine.State) engine.Task {
	t.Helper()
	if state == engine.None {
		return engine.Task{}
	}
	set(t, e, engine.Task{ID: "1", Due: time.Now().Add(-time.Minute), Payload: []byte("old")})
	switch state {
	case engine.Removed:
		_, err := e.Remove(ctx, []engine.Removal{{Key: key("1")}})
		require.NoError(t, err)
	case engine.Running, engine.Done, engine.Dead:
		leased := lease(t, e, time.Minute)
		if state != engine.Running {
			require.True(t, settle(t, e, engine.Outcome{Token: leased.Token, As: state, Error: "because"}))
		}
	}
	task := get(t, e, "1")
	require.Equal(t, state, task.State)
	return task
}

func TestAFailedTaskWaitsAndKeepsItsActionTime(t *testing.T) {
	e := openEngine(t, sharedServer(t), redis.Config{PollInterval: -1})
	withTopic(t, e, engine.Topic{Slots: 1})
	answer := set(t, e, engine.Task{ID: "1"})
	leased := lease(t, e, time.Minute)
	require.True(t, settle(t, e, engine.Outcome{Token: leased.Token, As: engine.Pending, After: time.Hour, Error: "no"}))
	task := get(t, e, "1")
	require.Equal(t, engine.Pending, task.State)
	require.True(t, task.Due.Equal(answer.Due))
	require.True(t, task.Until.After(task.Due))
	require.Equal(t, "no", task.Error)
	require.Equal(t, 1, task.Attempts)
	batch := leaseBatch(t, e, engine.Ask{Max: 1})
	require.Empty(t, batch.Leased)
	require.True(t, batch.Next.Equal(task.Until), "%v %v", batch.Next, task.Until)
	// An hour passes.
	require.NoError(t, sharedServer(t).client(t).ZIncrBy(ctx, e.SlotKey("orders", 0), -float64(time.Hour.Milliseconds()), "1").Err())
	again := lease(t, e, time.Minute)
	require.Equal(t, 2, again.Attempts)
	require.False(t, again.Again)
	require.Equal(t, "no", again.Error)
	require.NotEqual(t, leased.Token, again.Token)
	require.True(t, settle(t, e, engine.Outcome{Token: again.Token, As: engine.Pending, Release: true}))
	require.Equal(t, 1, get(t, e, "1").Attempts)
}

func TestALeaseThatExpiresIsGivenAgainUntilTheLastAttempt(t *testing.T) {
	e := orders(t, engine.Topic{Retries: 1})
	set(t, e, engine.Task{ID: "1"})
	first := lease(t, e, 20*time.Millisecond)
	time.Sleep(30 * time.Millisecond)
	second := lease(t, e, 20*time.Millisecond)
	require.True(t, second.Again)
	require.Equal(t, 2, second.Attempts)
	require.False(t, settle(t, e, engine.Outcome{Token: first.Token, As: engine.Done}), "F12")
	good, err := e.Extend(ctx, []engine.Token{first.Token, second.Token, {Key: key("1")}, {Key: key("1"), Part: "zzzzzzzzzzzz", Lease: 1 << 40}}, 20*time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, false, false}, good)
	time.Sleep(30 * time.Millisecond)
	batch := leaseBatch(t, e, engine.Ask{Max: 10})
	last := batch.Leased[0]
	require.True(t, last.Again)
	require.True(t, settle(t, e, engine.Outcome{Token: last.Token, As: engine.Dead, Release: true, Error: last.Error}))
	dead := get(t, e, "1")
	require.Equal(t, engine.Dead, dead.State)
	require.Equal(t, 2, dead.Attempts)
	require.Contains(t, dead.Error, "lease")
}

func TestTokensOfNothingSettleNothing(t *testing.T) {
	e := orders(t, engine.Topic{})
	set(t, e, engine.Task{ID: "1"})
	leased := lease(t, e, time.Minute)
	for _, change := range []func(*engine.Token){
		func(t *engine.Token) { t.Lease = 0 },
		func(t *engine.Token) { t.Lease = -1 },
		func(t *engine.Token) { t.Lease++; t.Lease += 1 << 10 },
		func(t *engine.Token) { t.Part = "" },
		func(t *engine.Token) { t.Part = "1" },
		func(t *engine.Token) { t.Part = "zzzzzzzzzzzz" },
		func(t *engine.Token) { t.Part = "-1" },
		func(t *engine.Token) { t.ID = "2" },
	} {
		bad := leased.Token
		change(&bad)
		require.False(t, settle(t, e, engine.Outcome{Token: bad, As: engine.Done}), "%+v", bad)
	}
	require.Equal(t, engine.Running, get(t, e, "1").State)
	waits := set(t, e, engine.Task{ID: "3", Due: time.Now().Add(time.Hour)})
	require.False(t, settle(t, e, engine.Outcome{Token: engine.Token{Key: key("3"), Part: leased.Token.Part}, As: engine.Done}))
	require.Equal(t, waits.Version, get(t, e, "3").Version)
}

func TestATaskThatIsRemovedAndSetAgainGetsOtherNumbers(t *testing.T) {
	e := orders(t, engine.Topic{})
	numbers := map[int64]bool{}
	for range 5 {
		answer := set(t, e, engine.Task{ID: "1"})
		leased := lease(t, e, time.Minute)
		require.False(t, numbers[answer.Version] || numbers[leased.Token.Lease])
		numbers[answer.Version], numbers[leased.Token.Lease] = true, true
		_, err := e.Remove(ctx, []engine.Removal{{Key: key("1")}})
		require.NoError(t, err)
		if len(numbers) == 6 {
			require.NoError(t, e.DropTopic(ctx, "orders"))
			withTopic(t, e, engine.Topic{})
		}
	}
}

func TestTheSameKeyTwiceInABatch(t *testing.T) {
	e := orders(t, engine.Topic{})
	var tasks []engine.Task
	for i := range 600 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i % 300), Payload: fmt.Append(nil, i)})
	}
	answers, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	for i, answer := range answers {
		require.Equal(t, i >= 300, answer.Was == engine.Pending)
		require.Equal(t, fmt.Sprint(i%300+300), string(get(t, e, tasks[i].ID).Payload))
	}
}

func TestManyAreLeasedInOneCall(t *testing.T) {
	e := orders(t, engine.Topic{})
	var tasks []engine.Task
	for i := range 3000 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i)})
	}
	_, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	batch := leaseBatch(t, e, engine.Ask{Max: 2500})
	require.Len(t, batch.Leased, 2500)
	require.False(t, batch.Next.After(batch.Now))
	var outcomes []engine.Outcome
	seen := map[string]bool{}
	for _, leased := range batch.Leased {
		require.False(t, seen[leased.ID])
		seen[leased.ID] = true
		outcomes = append(outcomes, engine.Outcome{Token: leased.Token, As: engine.Done})
	}
	batch = leaseBatch(t, e, engine.Ask{Max: 2500, Settle: outcomes})
	require.Len(t, batch.Leased, 500)
	require.NotContains(t, batch.Settled, false)
}

func TestLargePayloadsComeInSmallBatches(t *testing.T) {
	server := startServer(t)
	e := openEngine(t, server, redis.Config{PollInterval: -1})
	withTopic(t, e, engine.Topic{Slots: 1})
	var tasks []engine.Task
	for i := range 20 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i), Payload: make([]byte, 1<<20)})
	}
	_, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	runs := server.calls(t, "evalsha")
	batch := leaseBatch(t, e, engine.Ask{Max: 15})
	require.Len(t, batch.Leased, 15)
	require.GreaterOrEqual(t, server.calls(t, "evalsha")-runs, 15, "each in a run of its own")
	require.Len(t, batch.Leased[7].Payload, 1<<20)
	got, err := e.Get(ctx, []engine.Key{key("0"), key("19")})
	require.NoError(t, err)
	require.Len(t, got[1].Payload, 1<<20)
	page, err := e.List(ctx, engine.Query{Topic: "orders", State: engine.Running, Limit: 15})
	require.NoError(t, err)
	require.NotEmpty(t, page.Next)
	require.Less(t, len(page.Tasks), 15)

	withTopic(t, e, engine.Topic{Name: "mails", Slots: 1})
	tasks = nil
	for i := range 10 { // of a batch with small ones
		tasks = append(tasks, engine.Task{Topic: "mails", ID: fmt.Sprint(i), Payload: make([]byte, 300<<10)}, engine.Task{Topic: "mails", ID: fmt.Sprint("small-", i)})
	}
	_, err = e.Set(ctx, tasks)
	require.NoError(t, err)
	runs = server.calls(t, "evalsha")
	require.Len(t, leaseBatch(t, e, engine.Ask{Topic: "mails", Max: 20}).Leased, 20)
	require.GreaterOrEqual(t, server.calls(t, "evalsha")-runs, 3, "a MiB in a run")
}

func TestAPausedTopicLeasesNothing(t *testing.T) {
	e := orders(t, engine.Topic{})
	set(t, e, engine.Task{ID: "1"})
	leased := lease(t, e, time.Minute)
	_, err := e.Pause(ctx, "orders", true, time.Time{})
	require.NoError(t, err)
	set(t, e, engine.Task{ID: "2"})
	batch := leaseBatch(t, e, engine.Ask{Max: 10, Settle: []engine.Outcome{{Token: leased.Token, As: engine.Done}}})
	require.True(t, batch.Settled[0])
	require.Empty(t, batch.Leased)
	_, err = e.Pause(ctx, "orders", false, time.Time{})
	require.NoError(t, err)
	require.Equal(t, "2", lease(t, e, time.Minute).ID)
}

// orders2 is a second engine on the same tasks.
func orders2(t testing.TB, engine *redis.Engine) *redis.Engine {
	t.Helper()
	return openEngine(t, sharedServer(t), redis.Config{Prefix: engine.Prefix()})
}

func TestWhatIsKeptIsDeletedInItsTime(t *testing.T) {
	t.Parallel()
	e := orders(t, engine.Topic{Slots: 1, Retain: 5 * time.Second})
	var tasks []engine.Task
	for i := range 3000 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i)})
	}
	_, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	batch := leaseBatch(t, e, engine.Ask{Max: 1500})
	var outcomes []engine.Outcome
	for _, leased := range batch.Leased {
		outcomes = append(outcomes, engine.Outcome{Token: leased.Token, As: engine.Done})
	}
	leaseBatch(t, e, engine.Ask{Settle: outcomes})
	_, err = e.Remove(ctx, []engine.Removal{{Key: key("2999")}, {Key: key("2998")}})
	require.NoError(t, err)
	counts, err := e.Count(ctx, "orders")
	require.NoError(t, err)
	require.EqualValues(t, 1500, counts.Done)
	time.Sleep(5100 * time.Millisecond)
	for purged := (engine.Purged{More: true}); purged.More; {
		purged, err = e.Maintain(ctx)
		require.NoError(t, err)
	}
	counts, err = e.Count(ctx, "orders")
	require.NoError(t, err)
	require.Zero(t, counts.Done)
	require.Zero(t, counts.Removed)
}

func TestAListHasEachTaskOnce(t *testing.T) {
	e := orders(t, engine.Topic{Slots: 2})
	due := time.Now().Add(time.Hour)
	var tasks []engine.Task
	for i := range 700 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i), Due: due.Add(time.Duration(i/100) * time.Second)})
	}
	_, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	seen := map[string]int{}
	query := engine.Query{Topic: "orders", State: engine.Pending, Limit: 37}
	for page := 0; ; page++ {
		got, err := e.List(ctx, query)
		require.NoError(t, err)
		require.LessOrEqual(t, len(got.Tasks), 37)
		for _, task := range got.Tasks {
			seen[task.ID]++
		}
		if got.Next == "" {
			break
		}
		query.Cursor = got.Next
		if page == 3 { // it grows while it is listed, and what was the last one goes
			withTopic(t, e, engine.Topic{Slots: 8})
			_, err := e.Remove(ctx, []engine.Removal{{Key: got.Tasks[36].Key()}})
			require.NoError(t, err)
		}
	}
	require.Len(t, seen, 700)
	for id, times := range seen {
		require.Equal(t, 1, times, id)
	}
	for _, bad := range []string{"x", "////", "MQ", "MQoxCgoK"} {
		query.Cursor = bad
		_, err := e.List(ctx, query)
		require.ErrorIs(t, err, engine.ErrArgument, bad)
	}
}

func TestTopicsAreKept(t *testing.T) {
	e := orders(t, engine.Topic{Retries: 3})
	topic, err := e.SetTopic(ctx, engine.Topic{Name: "orders", Retries: 7}, true)
	require.NoError(t, err)
	require.Equal(t, 3, topic.Retries)
	require.Equal(t, 8, topic.Slots)
	_, err = e.SetTopic(ctx, engine.Topic{Name: "orders", Slots: 4}, false)
	require.ErrorIs(t, err, engine.ErrConflict)
	topic, err = e.SetTopic(ctx, engine.Topic{Name: "orders", Slots: 16, Callback: &engine.Callback{Kind: "a", Target: "b"}}, false)
	require.NoError(t, err)
	require.Equal(t, 16, topic.Slots)
	withTopic(t, e, engine.Topic{Name: "mails"})
	topics, err := e.Topics(ctx)
	require.NoError(t, err)
	require.Len(t, topics, 2)
	require.Equal(t, topic, topics[1])
	require.NoError(t, e.DropTopic(ctx, "orders"))
	require.ErrorIs(t, e.DropTopic(ctx, "orders"), engine.ErrNotFound)
	answers, err := e.Set(ctx, []engine.Task{{Topic: "orders", ID: "1"}, {Topic: "mails", ID: "1"}})
	require.NoError(t, err)
	require.ErrorIs(t, answers[0].Err, engine.ErrNotFound)
	require.NoError(t, answers[1].Err)
	_, err = e.Lease(ctx, engine.Ask{Topic: "orders", Max: 1, Lease: time.Second})
	require.ErrorIs(t, err, engine.ErrNotFound)
}

func TestMembersComeAndGo(t *testing.T) {
	e := openEngine(t, sharedServer(t), redis.Config{})
	heartbeat := func(name string, ttl time.Duration, topics ...string) engine.View {
		view, err := e.Heartbeat(ctx, engine.Node{Name: name, Topics: topics}, ttl)
		require.NoError(t, err)
		return view
	}
	heartbeat("b", time.Minute)
	second := heartbeat("a", time.Minute, "orders")
	require.Equal(t, "b", second.Leader())
	require.Equal(t, []string{"orders"}, second.Nodes[1].Topics)
	require.Nil(t, second.Nodes[0].Topics)
	require.Equal(t, second, heartbeat("b", time.Minute))
	// A minute passes without a heartbeat of a.
	require.NoError(t, sharedServer(t).client(t).ZIncrBy(ctx, e.Prefix()+":{members}:z", -float64(time.Minute.Milliseconds()), "a").Err())
	third := heartbeat("b", time.Minute)
	require.Len(t, third.Nodes, 1)
	heartbeat("c", time.Minute)
	require.NoError(t, e.Leave(ctx, "b"))
	last := heartbeat("a", time.Minute)
	require.Equal(t, "c", last.Leader())
	require.NoError(t, sharedServer(t).client(t).Del(ctx, e.Prefix()+":{members}:m", e.Prefix()+":{members}:z", e.Prefix()+":{members}:h").Err())
	require.Equal(t, "a", heartbeat("a", time.Minute).Leader())
}

// Nodes of an earlier version neither read nor write runs. They may send heartbeats under the same name, and
// dismiss nodes of this version.
func TestMembersOfAnEarlierVersionHaveNoRun(t *testing.T) {
	members := prefix()
	e, client := openEngine(t, sharedServer(t), redis.Config{Prefix: members}), sharedServer(t).client(t)
	members += ":{members}:"
	heartbeat := func(name, run string) engine.View {
		view, err := e.Heartbeat(ctx, engine.Node{Name: name, Run: run}, time.Minute)
		require.NoError(t, err)
		return view
	}
	heartbeat("a", "1")
	record := client.HGet(ctx, members+"h", "a").Val()
	require.Equal(t, "null", record[16:], "they read this")
	heartbeat("b", "2")
	require.NoError(t, client.Del(ctx, members+"r").Err()) // as if both were of an earlier version
	view := heartbeat("a", "3")
	require.Empty(t, view.Other)
	require.Len(t, view.Nodes, 2)
	require.Equal(t, "3", heartbeat("a", "4").Other)
	heartbeat("b", "5")
	require.NoError(t, client.ZRem(ctx, members+"z", "b").Err()) // dismissed by an earlier version
	require.NoError(t, client.HDel(ctx, members+"h", "b").Err())
	heartbeat("a", "4")
	require.Equal(t, map[string]string{"a": "4"}, client.HGetAll(ctx, members+"r").Val(), "nothing is left of it")
	require.Empty(t, heartbeat("b", "6").Other)
}

func TestAnotherProcessIsWoken(t *testing.T) {
	e := orders(t, engine.Topic{})
	second := orders2(t, e)
	woken := make(chan string, 100)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- second.Wake(ctx, func(topic string) { woken <- topic }, func(engine.Key) {}) }()
	require.Empty(t, <-woken, "it hears from now on")
	set(t, e, engine.Task{ID: "1", Due: time.Now().Add(time.Hour - time.Since(time.Unix(0, 0)))})
	require.Equal(t, "orders", <-woken)
	require.NoError(t, sharedServer(t).client(t).ClientKillByFilter(ctx, "TYPE", "pubsub").Err())
	require.Empty(t, <-woken, "and again, with another connection")
	set(t, e, engine.Task{ID: "2", Due: time.Now().Add(time.Hour - time.Since(time.Unix(0, 0)))})
	require.Equal(t, "orders", <-woken)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// A task with a time from now wakes others only if it comes first in its slot. They hear that time.
func TestOthersAreWokenByTheFirstTaskOnly(t *testing.T) {
	e := orders(t, engine.Topic{Slots: 1})
	client := sharedServer(t).client(t)
	sub := client.Subscribe(ctx, e.Prefix()+":wake")
	defer sub.Close()
	_, err := sub.Receive(ctx)
	require.NoError(t, err)
	// heard returns the times of the messages since the last call.
	heard := func() (times []int64) {
		require.NoError(t, client.Publish(ctx, e.Prefix()+":wake", "end").Err())
		for {
			message, err := sub.ReceiveMessage(ctx)
			require.NoError(t, err)
			if message.Payload == "end" {
				return times
			}
			_, last, _ := strings.Cut(message.Payload, "\n0\n")
			at, err := strconv.ParseInt(last, 10, 64)
			require.NoError(t, err, "message %q", message.Payload)
			times = append(times, at)
		}
	}
	move := func(moves ...engine.Move) []engine.Answer {
		for i := range moves {
			moves[i].Topic = "orders"
		}
		answers, err := e.Move(ctx, moves)
		require.NoError(t, err)
		return answers
	}
	first := set(t, e, engine.Task{ID: "first", After: time.Hour})
	require.Equal(t, []int64{first.Due.UnixMilli()}, heard())
	set(t, e, engine.Task{ID: "later", After: 2 * time.Hour})
	require.Empty(t, heard())
	move(engine.Move{Key: key("later"), After: 3 * time.Hour}, engine.Move{Key: key("first"), After: 2 * time.Hour})
	require.Empty(t, heard())
	soon := time.Now().Add(30 * time.Minute).Truncate(time.Millisecond)
	answers := move(engine.Move{Key: key("first"), After: 20 * time.Minute}, engine.Move{Key: key("later"), Due: soon})
	require.Equal(t, soon, answers[1].Due)
	require.Equal(t, []int64{answers[0].Due.UnixMilli()}, heard())
	move(engine.Move{Key: key("first"), After: 4 * time.Hour}, engine.Move{Key: key("later"), Due: soon.Add(-time.Minute)})
	require.Empty(t, heard(), "the first one was earlier")
	move(engine.Move{Key: key("later"), Due: soon.Add(-2 * time.Minute)})
	require.Equal(t, []int64{soon.Add(-2 * time.Minute).UnixMilli()}, heard())
}

// One script moves tasks before their first attempt and before another, and looks only for the second kind
// in the sets.
func TestAMoveFindsWhatWaitsAmongTheOthers(t *testing.T) {
	e := orders(t, engine.Topic{Slots: 1, Retain: time.Hour})
	one := func(id string) engine.Leased {
		set(t, e, engine.Task{ID: id, Due: time.Unix(1, 0)})
		return lease(t, e, time.Minute)
	}
	require.True(t, settle(t, e, engine.Outcome{Token: one("again").Token, As: engine.Pending, After: time.Hour, Error: "x"}))
	require.True(t, settle(t, e, engine.Outcome{Token: one("newrun").Token, As: engine.Pending, After: time.Hour, NewRun: true}))
	require.True(t, settle(t, e, engine.Outcome{Token: one("done").Token, As: engine.Done}))
	require.True(t, settle(t, e, engine.Outcome{Token: one("dead").Token, As: engine.Dead}))
	set(t, e, engine.Task{ID: "removed", After: time.Hour})
	_, err := e.Remove(ctx, []engine.Removal{{Key: key("removed")}})
	require.NoError(t, err)
	one("running")
	set(t, e, engine.Task{ID: "fresh", After: time.Hour})

	client, tag := sharedServer(t).client(t), strings.TrimSuffix(e.SlotKey("orders", 0), "s")
	for _, state := range []string{"p", "f", "d", "r"} {
		members := client.ZRange(ctx, tag+state, 0, -1).Val()
		require.Len(t, members, 1)
		require.True(t, client.HExists(ctx, tag+"a", members[0]).Val(), "%s has no record, and so waits", members[0])
	}

	ids := []string{"fresh", "none", "again", "running", "done", "newrun", "dead", "removed"}
	was := []engine.State{engine.Pending, engine.None, engine.Pending, engine.Running, engine.Done, engine.Pending, engine.Dead, engine.Removed}
	moves := make([]engine.Move, len(ids))
	for i, id := range ids {
		moves[i] = engine.Move{Key: key(id), After: 2 * time.Hour}
		if i%2 == 0 {
			moves[i].Due = time.Now().Add(3 * time.Hour).Truncate(time.Millisecond)
		}
	}
	before := make([]engine.Task, len(ids))
	for i, id := range ids {
		before[i] = get(t, e, id)
	}
	answers, err := e.Move(ctx, moves)
	require.NoError(t, err)
	for i, id := range ids {
		require.Equal(t, was[i], answers[i].Was, id)
		now := get(t, e, id)
		require.Equal(t, answers[i].Version, now.Version, id)
		if was[i] != engine.None {
			require.Equal(t, answers[i].Due, now.Due, id)
		}
		if was[i] != engine.Pending {
			require.Equal(t, before[i], now, id)
			continue
		}
		require.Equal(t, now.Due, now.Until, id)
		require.Greater(t, now.Version, before[i].Version, id)
		require.Equal(t, before[i].Attempts, now.Attempts, id)
		require.Equal(t, before[i].Error, now.Error, id)
	}
	require.Equal(t, 1, get(t, e, "again").Attempts)
}

func TestAClosedEngineSaysSo(t *testing.T) {
	e := orders(t, engine.Topic{})
	require.NoError(t, e.Close())
	require.NoError(t, e.Close())
	_, err := e.Set(ctx, []engine.Task{{Topic: "orders", ID: "1"}})
	require.ErrorIs(t, err, engine.ErrClosed)
	_, err = e.Topics(ctx)
	require.ErrorIs(t, err, engine.ErrClosed)
	_, err = e.Now(ctx)
	require.ErrorIs(t, err, engine.ErrClosed)
	_, err = e.Heartbeat(ctx, engine.Node{Name: "a"}, time.Second)
	require.ErrorIs(t, err, engine.ErrClosed)
	_, err = e.Maintain(ctx)
	require.ErrorIs(t, err, engine.ErrClosed)
	require.True(t, errors.Is(e.Leave(ctx, "a"), engine.ErrClosed))
}

// Processes of a version before don't know when a pause ends: they write a record without it, and tell partitions only
// whether there is a pause.
func TestAPauseIsForAVersionBeforeOneThatSomebodyHasToEnd(t *testing.T) {
	e := orders(t, engine.Topic{Slots: 1})
	set(t, e, engine.Task{ID: "1"})
	now := func() time.Time {
		at, err := e.Now(ctx)
		require.NoError(t, err)
		return at
	}
	until := now().Add(300 * time.Millisecond)
	_, err := e.Pause(ctx, "orders", true, until)
	require.NoError(t, err)
	client, hash, part := sharedServer(t).client(t), e.Prefix()+":{topics}:t", ""
	for _, key := range client.Keys(ctx, e.Prefix()+"*").Val() {
		if strings.HasSuffix(key, "}:m") {
			part = key
		}
	}
	fields := client.HGetAll(ctx, part).Val()
	require.Equal(t, "1", fields["paused"], "%s of %v", part, client.Keys(ctx, e.Prefix()+"*").Val())

	var record map[string]any
	decoder := json.NewDecoder(strings.NewReader(client.HGet(ctx, hash, "orders").Val()))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&record))
	topic := record["topic"].(map[string]any)
	require.Equal(t, true, topic["paused"])
	delete(topic, "paused_until")
	rev, err := record["rev"].(json.Number).Int64()
	require.NoError(t, err)
	rev++
	raw := changed(t, client.HGet(ctx, hash, "orders").Val(), map[string]any{"topic": topic, "rev": rev, "seq": rev})
	require.NoError(t, client.HSet(ctx, hash, "orders", raw).Err())
	require.NoError(t, client.HSet(ctx, part, "rev", rev, "paused", 1).Err())
	for now().Before(until.Add(50 * time.Millisecond)) {
		require.Empty(t, leaseBatch(t, e, engine.Ask{Max: 1}).Leased)
		time.Sleep(20 * time.Millisecond)
	}
	batch := leaseBatch(t, orders2(t, e), engine.Ask{Max: 1})
	require.Empty(t, batch.Leased)
	require.Zero(t, batch.Next)
	topics, err := e.Topics(ctx)
	require.NoError(t, err)
	require.True(t, topics[0].Paused && topics[0].PausedUntil.IsZero())
	_, err = e.Pause(ctx, "orders", true, now().Add(time.Millisecond))
	require.NoError(t, err)
	require.Equal(t, "1", lease(t, e, time.Minute).ID)
}

func TestASetThatKeepsTheTimeOfAWaitingTaskWakesNobody(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	e := openEngine(t, s, redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 1})
	ending := make(chan error, 1)
	listening, stop := context.WithCancel(ctx)
	began := make(chan struct{}, 100)
	go func() {
		ending <- openEngine(t, s, redis.Config{Prefix: e.Prefix()}).Wake(listening, func(string) { began <- struct{}{} }, func(engine.Key) {})
	}()
	<-began
	set(t, e, engine.Task{ID: "1", After: time.Hour})
	before := s.calls(t, "publish")
	for range 50 {
		set(t, e, engine.Task{ID: "1", After: time.Minute, KeepDue: true})
	}
	require.Equal(t, before, s.calls(t, "publish"))
	set(t, e, engine.Task{ID: "2", After: time.Minute, KeepDue: true})
	require.Equal(t, before+1, s.calls(t, "publish"), "an earlier task does")
	stop()
	require.ErrorIs(t, <-ending, context.Canceled)
}

// The Maintain of a process of a version before comes between a change and what is told of it: it tells the
// partition the rev of the record, and that there is a pause, but not when that ends.
func TestAPauseEndsThoughAVersionBeforeHasToldOfIt(t *testing.T) {
	e := orders(t, engine.Topic{Slots: 1})
	set(t, e, engine.Task{ID: "1"})
	client, hash, part := sharedServer(t).client(t), e.Prefix()+":{topics}:t", ""
	for _, key := range client.Keys(ctx, e.Prefix()+"*").Val() {
		if strings.HasSuffix(key, "}:m") {
			part = key
		}
	}
	e.OnStep(func(name string) error {
		if name == "tell" {
			var record struct {
				Rev json.Number `json:"rev"`
			}
			require.NoError(t, json.Unmarshal([]byte(client.HGet(ctx, hash, "orders").Val()), &record))
			require.NoError(t, client.HSet(ctx, part, "rev", record.Rev.String(), "retain", 0, "paused", 1).Err()) // keep.lua of 8aec6dd0
		}
		return nil
	})
	now, err := e.Now(ctx)
	require.NoError(t, err)
	_, err = e.Pause(ctx, "orders", true, now.Add(300*time.Millisecond))
	require.NoError(t, err)
	e.OnStep(func(string) error { return nil })
	time.Sleep(500 * time.Millisecond)
	_, err = e.Maintain(ctx)
	require.NoError(t, err)
	topics, err := e.Topics(ctx)
	require.NoError(t, err)
	require.False(t, topics[0].Paused, "the topic says that it runs")
	for range 20 {
		if len(leaseBatch(t, e, engine.Ask{Max: 1}).Leased) == 1 {
			return
		}
		_, _ = e.Maintain(ctx)
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("its tasks never run", client.HGetAll(ctx, part).Val())
}
