package memory_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestItDoesWhatEveryEngineMust(t *testing.T) {
	open := func(t *testing.T) engine.Engine {
		e, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		return e
	}
	enginetest.Run(t, open(t), enginetest.Options{Open: open})
}

func TestAClosedEngineRefusesAllCalls(t *testing.T) {
	e, err := memory.New(memory.Config{})
	require.NoError(t, err)
	require.NoError(t, e.Close())
	require.NoError(t, e.Close())
	_, err = e.Topics(t.Context())
	require.ErrorIs(t, err, engine.ErrClosed)
}

func TestTheEarliestComesFirstOverAllSlots(t *testing.T) {
	e, err := memory.New(memory.Config{})
	require.NoError(t, err)
	defer e.Close()
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 8}, true)
	require.NoError(t, err)
	const count = 100
	var tasks []engine.Task
	for _, i := range rand.Perm(count) {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: strconv.Itoa(i), Due: time.UnixMilli(int64(i))})
	}
	_, err = e.Set(t.Context(), tasks)
	require.NoError(t, err)
	for want := 0; want < count; {
		batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Max: 7, Lease: time.Hour})
		require.NoError(t, err)
		require.NotEmpty(t, batch.Leased)
		for _, leased := range batch.Leased {
			require.Equal(t, strconv.Itoa(want), leased.ID)
			want++
		}
	}
}

func TestATaskCanDieAndBeReplayedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := memory.New(memory.Config{})
		require.NoError(t, err)
		defer e.Close()
		_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders", Retries: -1}, true)
		require.NoError(t, err)
		key := engine.Key{Topic: "orders", ID: "1"}
		_, err = e.Set(t.Context(), []engine.Task{{Topic: key.Topic, ID: key.ID, After: time.Minute}})
		require.NoError(t, err)
		ask := engine.Ask{Topic: "orders", Max: 10, Lease: time.Minute}
		leaseBatch := func() engine.Batch {
			time.Sleep(time.Minute)
			batch, err := e.Lease(t.Context(), ask)
			require.NoError(t, err)
			return batch
		}
		for range 5 {
			require.Len(t, leaseBatch().Leased, 1)
			leased := leaseBatch().Leased[0]
			require.Equal(t, 2, leased.Attempts)
			require.Contains(t, leased.Error, "ended in attempt 1")
			ask.Settle = []engine.Outcome{{Token: leased.Token, As: engine.Dead, Release: true, Error: leased.Error}}
			require.Empty(t, leaseBatch().Leased, "what is dead stays")
			ask.Settle = nil
			answers, err := e.Replay(t.Context(), []engine.Key{key})
			require.NoError(t, err)
			require.Equal(t, engine.Dead, answers[0].Was)
		}
	})
}

func TestAProgramMayChangeItsCallback(t *testing.T) {
	e, err := memory.New(memory.Config{})
	require.NoError(t, err)
	defer e.Close()
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "t"}, true)
	require.NoError(t, err)
	given := func() *engine.Callback {
		return &engine.Callback{Kind: "http", Target: "http://a/", Header: map[string]string{"A": "1"}, Final: []int{422}}
	}
	change := func(c *engine.Callback) { c.Target, c.Header["A"], c.Final[0] = "http://b/", "2", 423 }
	own := given()
	_, err = e.Set(t.Context(), []engine.Task{{Topic: "t", ID: "1", After: time.Hour, Callback: own}})
	require.NoError(t, err)
	change(own)
	for range 2 {
		got, err := e.Get(t.Context(), []engine.Key{{Topic: "t", ID: "1"}})
		require.NoError(t, err)
		require.Equal(t, given(), got[0].Callback)
		change(got[0].Callback)
	}

	own = given()
	topic, err := e.SetTopic(t.Context(), engine.Topic{Name: "u", Callback: own}, false)
	require.NoError(t, err)
	change(own)
	for range 2 {
		require.Equal(t, given(), topic.Callback)
		change(topic.Callback)
		topics, err := e.Topics(t.Context())
		require.NoError(t, err)
		topic = topics[1]
	}
}

func TestMemoryComesBackAfterACrowdOfTasksAndTopics(t *testing.T) {
	e, err := memory.New(memory.Config{})
	require.NoError(t, err)
	defer e.Close()
	const tasks, topics = 20_000, 2_000
	before := inUse()
	for i := range topics {
		_, err := e.SetTopic(t.Context(), engine.Topic{Name: fmt.Sprint(i), Slots: 1}, false)
		require.NoError(t, err)
	}
	for first := 0; first < tasks; first += 1000 {
		set := make([]engine.Task, 1000) // due at once
		for i := range set {
			set[i] = engine.Task{Topic: "0", ID: fmt.Sprint(first + i)}
		}
		_, err := e.Set(t.Context(), set)
		require.NoError(t, err)
	}
	for first := 0; first < tasks; first += 1000 {
		removals := make([]engine.Removal, 1000)
		for i := range removals {
			removals[i].Key = engine.Key{Topic: "0", ID: fmt.Sprint(first + i)}
		}
		_, err := e.Remove(t.Context(), removals)
		require.NoError(t, err)
	}
	for i := 1; i < topics; i++ {
		require.NoError(t, e.DropTopic(t.Context(), fmt.Sprint(i)))
	}
	require.Less(t, inUse()-before, int64(200<<10))
}
