package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

var ctx = context.Background()

func key(id string) timeout.Key { return timeout.Key{Topic: "orders", ID: id} }

func set(t testing.TB, engine timeout.Engine, task timeout.Task) timeout.Answer {
	t.Helper()
	if task.Topic == "" {
		task.Topic = "orders"
	}
	answers, err := engine.Set(ctx, []timeout.Task{task})
	require.NoError(t, err)
	require.NoError(t, answers[0].Err)
	return answers[0]
}

func get(t testing.TB, engine timeout.Engine, id string) timeout.Task {
	t.Helper()
	tasks, err := engine.Get(ctx, []timeout.Key{key(id)})
	require.NoError(t, err)
	return tasks[0]
}

func expire(t testing.TB, engine timeout.Engine, ask timeout.Ask) timeout.Batch {
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
	batch, err := engine.Expire(ctx, ask)
	require.NoError(t, err)
	return batch
}

// lease leases one task.
func lease(t testing.TB, engine timeout.Engine, length time.Duration) timeout.Leased {
	t.Helper()
	batch := expire(t, engine, timeout.Ask{Max: 1, Lease: length})
	require.Len(t, batch.Leased, 1)
	return batch.Leased[0]
}

func settle(t testing.TB, engine timeout.Engine, outcome timeout.Outcome) bool {
	t.Helper()
	return expire(t, engine, timeout.Ask{Settle: []timeout.Outcome{outcome}}).Settled[0]
}

func withTopic(t testing.TB, engine timeout.Engine, topic timeout.Topic) {
	t.Helper()
	if topic.Name == "" {
		topic.Name = "orders"
	}
	_, err := engine.SetTopic(ctx, topic, false)
	require.NoError(t, err)
}

// orders is an engine with a topic.
func orders(t testing.TB, topic timeout.Topic) *redis.Engine {
	t.Helper()
	engine := openEngine(t, sharedServer(t), redis.Config{})
	withTopic(t, engine, topic)
	return engine
}

func TestATaskIsLeasedAndDone(t *testing.T) {
	engine := orders(t, timeout.Topic{})
	call := &timeout.Callback{Kind: "http", Target: "http://x", Header: map[string]string{"a": "b"}}
	answer := set(t, engine, timeout.Task{ID: "ü \"{1}", Payload: []byte{0, 255, '\n'}, Callback: call})
	require.Equal(t, timeout.None, answer.Was)
	before := get(t, engine, "ü \"{1}")
	require.Equal(t, timeout.Pending, before.State)
	require.Equal(t, answer.Version, before.Version)
	require.Equal(t, []byte{0, 255, '\n'}, before.Payload)
	require.Equal(t, call, before.Callback)
	require.True(t, before.Due.Equal(answer.Due))
	got := lease(t, engine, time.Minute)
	require.Equal(t, 1, got.Attempts)
	require.Equal(t, timeout.Running, got.State)
	require.Equal(t, call, got.Callback)
	running := get(t, engine, "ü \"{1}")
	require.Equal(t, got.Task, running)
	counts, err := engine.Count(ctx, "orders")
	require.NoError(t, err)
	require.Equal(t, timeout.Counts{Running: 1}, counts)
	require.True(t, settle(t, engine, timeout.Outcome{Token: got.Token, As: timeout.Done}))
	require.False(t, settle(t, engine, timeout.Outcome{Token: got.Token, As: timeout.Done}))
	require.Equal(t, timeout.None, get(t, engine, "ü \"{1}").State)
}

func TestEveryVerbInEveryState(t *testing.T) {
	states := []timeout.State{timeout.None, timeout.Pending, timeout.Running, timeout.Done, timeout.Dead, timeout.Removed}
	has := func(state timeout.State, of ...timeout.State) bool { return slices.Contains(of, state) }
	for _, state := range states {
		for _, verb := range []string{"set", "set if absent", "move", "remove", "replay"} {
			t.Run(fmt.Sprintf("%s/%v", verb, state), func(t *testing.T) {
				t.Parallel()
				engine := orders(t, timeout.Topic{Retain: time.Hour, Slots: 1})
				before := into(t, engine, state)
				due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
				var answers []timeout.Answer
				var err error
				after, grows := state, false
				switch verb {
				case "set", "set if absent":
					answers, err = engine.Set(ctx, []timeout.Task{{Topic: "orders", ID: "1", Due: due, IfAbsent: verb != "set", Payload: []byte("new")}})
					if verb == "set" || !has(state, timeout.Pending, timeout.Running, timeout.Dead) {
						after, grows = timeout.Pending, true
					}
				case "move":
					answers, err = engine.Move(ctx, []timeout.Move{{Key: key("1"), Due: due}})
					grows = state == timeout.Pending
				case "remove":
					answers, err = engine.Remove(ctx, []timeout.Removal{{Key: key("1")}})
					if has(state, timeout.Pending, timeout.Running, timeout.Dead) {
						after = timeout.Removed
					}
				case "replay":
					answers, err = engine.Replay(ctx, []timeout.Key{key("1")})
					if state == timeout.Dead {
						after = timeout.Pending
					}
				}
				require.NoError(t, err)
				require.Equal(t, state, answers[0].Was)
				task := get(t, engine, "1")
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
				} else if after == state && state != timeout.None {
					require.Equal(t, before, task)
					require.Equal(t, before.Version, answers[0].Version)
					require.True(t, before.Due.Equal(answers[0].Due))
				}
			})
		}
	}
}

// into brings task 1 into a state and returns it.
func into(t *testing.T, engine timeout.Engine, state timeout.State) timeout.Task {
	t.Helper()
	if state == timeout.None {
		return timeout.Task{}
	}
	set(t, engine, timeout.Task{ID: "1", Due: time.Now().Add(-time.Minute), Payload: []byte("old")})
	switch state {
	case timeout.Removed:
		_, err := engine.Remove(ctx, []timeout.Removal{{Key: key("1")}})
		require.NoError(t, err)
	case timeout.Running, timeout.Done, timeout.Dead:
		leased := lease(t, engine, time.Minute)
		if state != timeout.Running {
			require.True(t, settle(t, engine, timeout.Outcome{Token: leased.Token, As: state, Error: "because"}))
		}
	}
	task := get(t, engine, "1")
	require.Equal(t, state, task.State)
	return task
}

func TestAFailedTaskWaitsAndKeepsItsActionTime(t *testing.T) {
	engine := orders(t, timeout.Topic{})
	answer := set(t, engine, timeout.Task{ID: "1"})
	leased := lease(t, engine, time.Minute)
	require.True(t, settle(t, engine, timeout.Outcome{Token: leased.Token, As: timeout.Pending, After: 2 * time.Second, Error: "no"}))
	task := get(t, engine, "1")
	require.Equal(t, timeout.Pending, task.State)
	require.True(t, task.Due.Equal(answer.Due))
	require.True(t, task.Until.After(task.Due))
	require.Equal(t, "no", task.Error)
	require.Equal(t, 1, task.Attempts)
	batch := expire(t, engine, timeout.Ask{Max: 1})
	require.Empty(t, batch.Leased)
	require.True(t, batch.Next.Equal(task.Until), "%v %v", batch.Next, task.Until)
	time.Sleep(batch.Next.Sub(batch.Now))
	again := lease(t, engine, time.Minute)
	require.Equal(t, 2, again.Attempts)
	require.False(t, again.Again)
	require.Equal(t, "no", again.Error)
	require.NotEqual(t, leased.Token, again.Token)
	require.True(t, settle(t, engine, timeout.Outcome{Token: again.Token, As: timeout.Pending, Refund: true}))
	require.Equal(t, 1, get(t, engine, "1").Attempts)
}

func TestALeaseThatIsOutlivedIsGivenAgainUntilTheLastAttempt(t *testing.T) {
	engine := orders(t, timeout.Topic{Retries: 1})
	set(t, engine, timeout.Task{ID: "1"})
	first := lease(t, engine, 20*time.Millisecond)
	time.Sleep(30 * time.Millisecond)
	second := lease(t, engine, 20*time.Millisecond)
	require.True(t, second.Again)
	require.Equal(t, 2, second.Attempts)
	require.False(t, settle(t, engine, timeout.Outcome{Token: first.Token, As: timeout.Done}), "F12")
	good, err := engine.Extend(ctx, []timeout.Token{first.Token, second.Token, {Key: key("1")}, {Key: key("1"), Part: "zzzzzzzzzzzz", Lease: 1 << 40}}, 20*time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, false, false}, good)
	time.Sleep(30 * time.Millisecond)
	batch := expire(t, engine, timeout.Ask{Max: 10})
	require.Empty(t, batch.Leased)
	require.Equal(t, []timeout.Key{key("1")}, batch.Died)
	dead := get(t, engine, "1")
	require.Equal(t, timeout.Dead, dead.State)
	require.Contains(t, dead.Error, "lease")
}

func TestTokensOfNothingSettleNothing(t *testing.T) {
	engine := orders(t, timeout.Topic{})
	set(t, engine, timeout.Task{ID: "1"})
	leased := lease(t, engine, time.Minute)
	for _, change := range []func(*timeout.Token){
		func(t *timeout.Token) { t.Lease = 0 },
		func(t *timeout.Token) { t.Lease = -1 },
		func(t *timeout.Token) { t.Lease++; t.Lease += 1 << 10 },
		func(t *timeout.Token) { t.Part = "" },
		func(t *timeout.Token) { t.Part = "1" },
		func(t *timeout.Token) { t.Part = "zzzzzzzzzzzz" },
		func(t *timeout.Token) { t.Part = "-1" },
		func(t *timeout.Token) { t.ID = "2" },
	} {
		bad := leased.Token
		change(&bad)
		require.False(t, settle(t, engine, timeout.Outcome{Token: bad, As: timeout.Done}), "%+v", bad)
	}
	require.Equal(t, timeout.Running, get(t, engine, "1").State)
	waits := set(t, engine, timeout.Task{ID: "3", Due: time.Now().Add(time.Hour)})
	require.False(t, settle(t, engine, timeout.Outcome{Token: timeout.Token{Key: key("3"), Part: leased.Token.Part}, As: timeout.Done}))
	require.Equal(t, waits.Version, get(t, engine, "3").Version)
}

func TestATaskThatIsRemovedAndSetAgainGetsOtherNumbers(t *testing.T) {
	engine := orders(t, timeout.Topic{})
	numbers := map[int64]bool{}
	for range 5 {
		answer := set(t, engine, timeout.Task{ID: "1"})
		leased := lease(t, engine, time.Minute)
		require.False(t, numbers[answer.Version] || numbers[leased.Token.Lease])
		numbers[answer.Version], numbers[leased.Token.Lease] = true, true
		_, err := engine.Remove(ctx, []timeout.Removal{{Key: key("1")}})
		require.NoError(t, err)
		if len(numbers) == 6 {
			require.NoError(t, engine.DropTopic(ctx, "orders"))
			withTopic(t, engine, timeout.Topic{})
		}
	}
}

func TestTheSameKeyTwiceInABatch(t *testing.T) {
	engine := orders(t, timeout.Topic{})
	var tasks []timeout.Task
	for i := range 600 {
		tasks = append(tasks, timeout.Task{Topic: "orders", ID: fmt.Sprint(i % 300), Payload: fmt.Append(nil, i)})
	}
	answers, err := engine.Set(ctx, tasks)
	require.NoError(t, err)
	for i, answer := range answers {
		require.Equal(t, i >= 300, answer.Was == timeout.Pending)
		require.Equal(t, fmt.Sprint(i%300+300), string(get(t, engine, tasks[i].ID).Payload))
	}
}

func TestManyAreLeasedInOneCall(t *testing.T) {
	engine := orders(t, timeout.Topic{})
	var tasks []timeout.Task
	for i := range 3000 {
		tasks = append(tasks, timeout.Task{Topic: "orders", ID: fmt.Sprint(i)})
	}
	_, err := engine.Set(ctx, tasks)
	require.NoError(t, err)
	batch := expire(t, engine, timeout.Ask{Max: 2500})
	require.Len(t, batch.Leased, 2500)
	require.False(t, batch.Next.After(batch.Now))
	var outcomes []timeout.Outcome
	seen := map[string]bool{}
	for _, leased := range batch.Leased {
		require.False(t, seen[leased.ID])
		seen[leased.ID] = true
		outcomes = append(outcomes, timeout.Outcome{Token: leased.Token, As: timeout.Done})
	}
	batch = expire(t, engine, timeout.Ask{Max: 2500, Settle: outcomes})
	require.Len(t, batch.Leased, 500)
	require.NotContains(t, batch.Settled, false)
}

func TestLargePayloadsComeInSmallBatches(t *testing.T) {
	engine := orders(t, timeout.Topic{Slots: 1})
	var tasks []timeout.Task
	for i := range 20 {
		tasks = append(tasks, timeout.Task{Topic: "orders", ID: fmt.Sprint(i), Payload: make([]byte, 1<<20)})
	}
	_, err := engine.Set(ctx, tasks)
	require.NoError(t, err)
	batch := expire(t, engine, timeout.Ask{Max: 15})
	require.Len(t, batch.Leased, 15)
	require.Len(t, batch.Leased[7].Payload, 1<<20)
	got, err := engine.Get(ctx, []timeout.Key{key("0"), key("19")})
	require.NoError(t, err)
	require.Len(t, got[1].Payload, 1<<20)
	page, err := engine.List(ctx, timeout.Query{Topic: "orders", State: timeout.Running, Limit: 15})
	require.NoError(t, err)
	require.NotEmpty(t, page.Next)
	require.Less(t, len(page.Tasks), 15)
}

func TestAPausedTopicLeasesNothing(t *testing.T) {
	engine := orders(t, timeout.Topic{})
	set(t, engine, timeout.Task{ID: "1"})
	leased := lease(t, engine, time.Minute)
	_, err := engine.Pause(ctx, "orders", true)
	require.NoError(t, err)
	set(t, engine, timeout.Task{ID: "2"})
	batch := expire(t, engine, timeout.Ask{Max: 10, Settle: []timeout.Outcome{{Token: leased.Token, As: timeout.Done}}})
	require.True(t, batch.Settled[0])
	require.Empty(t, batch.Leased)
	_, err = engine.Pause(ctx, "orders", false)
	require.NoError(t, err)
	require.Equal(t, "2", lease(t, engine, time.Minute).ID)
}

func TestAnOlderTermIsFenced(t *testing.T) {
	engine := orders(t, timeout.Topic{})
	second := orders2(t, engine)
	set(t, engine, timeout.Task{ID: "1"})
	leased := lease(t, engine, time.Minute)
	expire(t, second, timeout.Ask{Max: 1, Term: 2})
	batch, err := engine.Expire(ctx, timeout.Ask{
		Topic: "orders", Node: "old", Max: 1, Lease: time.Minute, Term: 1,
		Settle: []timeout.Outcome{{Token: leased.Token, As: timeout.Done}},
	})
	require.ErrorIs(t, err, timeout.ErrFenced)
	require.True(t, batch.Settled[0])
	expire(t, engine, timeout.Ask{Max: 1, Term: 2})
	expire(t, engine, timeout.Ask{Max: 1})
}

// orders2 is a second engine on the same tasks.
func orders2(t testing.TB, engine *redis.Engine) *redis.Engine {
	t.Helper()
	return openEngine(t, sharedServer(t), redis.Config{Prefix: engine.Prefix()})
}

func TestWhatIsKeptIsDeletedInItsTime(t *testing.T) {
	engine := orders(t, timeout.Topic{Retain: 5 * time.Second})
	var tasks []timeout.Task
	for i := range 3000 {
		tasks = append(tasks, timeout.Task{Topic: "orders", ID: fmt.Sprint(i)})
	}
	_, err := engine.Set(ctx, tasks)
	require.NoError(t, err)
	batch := expire(t, engine, timeout.Ask{Max: 1500})
	var outcomes []timeout.Outcome
	for _, leased := range batch.Leased {
		outcomes = append(outcomes, timeout.Outcome{Token: leased.Token, As: timeout.Done})
	}
	expire(t, engine, timeout.Ask{Settle: outcomes})
	_, err = engine.Remove(ctx, []timeout.Removal{{Key: key("2999")}, {Key: key("2998")}})
	require.NoError(t, err)
	counts, err := engine.Count(ctx, "orders")
	require.NoError(t, err)
	require.EqualValues(t, 1500, counts.Done)
	time.Sleep(5100 * time.Millisecond)
	for swept := (timeout.Swept{More: true}); swept.More; {
		swept, err = engine.Upkeep(ctx, 1)
		require.NoError(t, err)
	}
	counts, err = engine.Count(ctx, "orders")
	require.NoError(t, err)
	require.Zero(t, counts.Done)
	require.Zero(t, counts.Removed)
}

func TestAListHasEachTaskOnce(t *testing.T) {
	engine := orders(t, timeout.Topic{Slots: 2})
	due := time.Now().Add(time.Hour)
	var tasks []timeout.Task
	for i := range 700 {
		tasks = append(tasks, timeout.Task{Topic: "orders", ID: fmt.Sprint(i), Due: due.Add(time.Duration(i/100) * time.Second)})
	}
	_, err := engine.Set(ctx, tasks)
	require.NoError(t, err)
	seen := map[string]int{}
	query := timeout.Query{Topic: "orders", State: timeout.Pending, Limit: 37}
	for page := 0; ; page++ {
		got, err := engine.List(ctx, query)
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
			withTopic(t, engine, timeout.Topic{Slots: 8})
			_, err := engine.Remove(ctx, []timeout.Removal{{Key: got.Tasks[36].Key()}})
			require.NoError(t, err)
		}
	}
	require.Len(t, seen, 700)
	for id, times := range seen {
		require.Equal(t, 1, times, id)
	}
	for _, bad := range []string{"x", "////", "MQ", "MQoxCgoK"} {
		query.Cursor = bad
		_, err := engine.List(ctx, query)
		require.ErrorIs(t, err, timeout.ErrArgument, bad)
	}
}

func TestTopicsAreKept(t *testing.T) {
	engine := orders(t, timeout.Topic{Retries: 3})
	topic, err := engine.SetTopic(ctx, timeout.Topic{Name: "orders", Retries: 7}, true)
	require.NoError(t, err)
	require.Equal(t, 3, topic.Retries)
	require.Equal(t, 8, topic.Slots)
	_, err = engine.SetTopic(ctx, timeout.Topic{Name: "orders", Slots: 4}, false)
	require.ErrorIs(t, err, timeout.ErrConflict)
	topic, err = engine.SetTopic(ctx, timeout.Topic{Name: "orders", Slots: 16, Callback: &timeout.Callback{Kind: "a", Target: "b"}}, false)
	require.NoError(t, err)
	require.Equal(t, 16, topic.Slots)
	withTopic(t, engine, timeout.Topic{Name: "mails"})
	topics, err := engine.Topics(ctx)
	require.NoError(t, err)
	require.Len(t, topics, 2)
	require.Equal(t, topic, topics[1])
	require.NoError(t, engine.DropTopic(ctx, "orders"))
	require.ErrorIs(t, engine.DropTopic(ctx, "orders"), timeout.ErrNotFound)
	answers, err := engine.Set(ctx, []timeout.Task{{Topic: "orders", ID: "1"}, {Topic: "mails", ID: "1"}})
	require.NoError(t, err)
	require.ErrorIs(t, answers[0].Err, timeout.ErrNotFound)
	require.NoError(t, answers[1].Err)
	_, err = engine.Expire(ctx, timeout.Ask{Topic: "orders", Max: 1, Lease: time.Second})
	require.ErrorIs(t, err, timeout.ErrNotFound)
}

func TestMembersComeAndGo(t *testing.T) {
	engine := openEngine(t, sharedServer(t), redis.Config{})
	beat := func(name string, ttl time.Duration, topics ...string) timeout.View {
		view, err := engine.Beat(ctx, timeout.Node{Name: name, Topics: topics}, ttl)
		require.NoError(t, err)
		return view
	}
	first := beat("b", time.Minute)
	second := beat("a", 2*time.Second, "orders")
	require.Greater(t, second.Term, first.Term)
	require.Equal(t, "b", second.Leader())
	require.Equal(t, []string{"orders"}, second.Nodes[1].Topics)
	require.Nil(t, second.Nodes[0].Topics)
	require.Equal(t, second, beat("b", time.Minute))
	time.Sleep(2100 * time.Millisecond)
	third := beat("b", time.Minute)
	require.Len(t, third.Nodes, 1)
	require.Greater(t, third.Term, second.Term)
	beat("c", time.Minute)
	require.NoError(t, engine.Leave(ctx, "b"))
	require.Equal(t, "c", beat("a", time.Minute).Leader())
}

func TestAnotherProcessIsWoken(t *testing.T) {
	engine := orders(t, timeout.Topic{})
	second := orders2(t, engine)
	woken := make(chan string, 100)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- second.Wake(ctx, func(topic string) { woken <- topic }) }()
	require.Empty(t, <-woken, "it hears from now on")
	set(t, engine, timeout.Task{ID: "1", Due: time.Now().Add(time.Hour - time.Since(time.Unix(0, 0)))})
	require.Equal(t, "orders", <-woken)
	require.NoError(t, sharedServer(t).client(t).ClientKillByFilter(ctx, "TYPE", "pubsub").Err())
	require.Empty(t, <-woken, "and again, with another connection")
	set(t, engine, timeout.Task{ID: "2", Due: time.Now().Add(time.Hour - time.Since(time.Unix(0, 0)))})
	require.Equal(t, "orders", <-woken)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestAClosedEngineSaysSo(t *testing.T) {
	engine := orders(t, timeout.Topic{})
	require.NoError(t, engine.Close())
	require.NoError(t, engine.Close())
	_, err := engine.Set(ctx, []timeout.Task{{Topic: "orders", ID: "1"}})
	require.ErrorIs(t, err, timeout.ErrClosed)
	_, err = engine.Topics(ctx)
	require.ErrorIs(t, err, timeout.ErrClosed)
	_, err = engine.Now(ctx)
	require.ErrorIs(t, err, timeout.ErrClosed)
	_, err = engine.Beat(ctx, timeout.Node{Name: "a"}, time.Second)
	require.ErrorIs(t, err, timeout.ErrClosed)
	_, err = engine.Upkeep(ctx, 0)
	require.ErrorIs(t, err, timeout.ErrClosed)
	require.True(t, errors.Is(engine.Leave(ctx, "a"), timeout.ErrClosed))
}
