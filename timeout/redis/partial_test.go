package redis_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// inSlot returns an id of a slot.
func inSlot(slot, slots int) string {
	for i := 0; ; i++ {
		if id := fmt.Sprint("id-", i); engine.Slot(id, slots) == slot {
			return id
		}
	}
}

// breakSlot has the set of what runs, in the slot of an id, be something else, and returns how to
// mend it.
func breakSlot(t *testing.T, s server, engine *redis.Engine, id string) (mend func()) {
	client := s.client(t)
	for _, name := range client.Keys(ctx, engine.Prefix()+":{orders:*:p").Val() {
		if client.ZScore(ctx, name, id).Err() == nil {
			require.NoError(t, client.Rename(ctx, name, name+"-away").Err())
			require.NoError(t, client.Set(ctx, name, "broken", 0).Err())
			return func() { require.NoError(t, client.Rename(ctx, name+"-away", name).Err()) }
		}
	}
	t.Fatal("no slot has " + id)
	return nil
}

func TestASlotThatCanNotBeSettledCostsNoOtherItsLease(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	e := openEngine(t, server, redis.Config{PollInterval: -1})
	withTopic(t, e, engine.Topic{Slots: 2})
	bad, good := inSlot(0, 2), inSlot(1, 2)
	set(t, e, engine.Task{ID: bad})
	first := lease(t, e, time.Minute)
	mend := breakSlot(t, server, e, bad)
	set(t, e, engine.Task{ID: good})
	done := []engine.Outcome{{Token: first.Token, As: engine.Done}}
	batch := leasePartly(t, e, engine.Ask{Max: 10, Settle: done})
	require.Len(t, batch.Leased, 1)
	require.Equal(t, good, batch.Leased[0].ID)
	require.Equal(t, []bool{false}, batch.Settled, "nobody knows")

	held, err := e.Extend(ctx, []engine.Token{first.Token, batch.Leased[0].Token}, time.Hour)
	require.ErrorIs(t, err, engine.ErrPartial)
	require.Equal(t, []bool{false, true}, held)
	_, err = e.Lease(ctx, engine.Ask{Topic: "orders", Settle: done})
	require.ErrorContains(t, err, "WRONGTYPE", "who wants nothing but that can ask again")

	mend()
	require.Equal(t, engine.Running, get(t, e, bad).State)
	require.Equal(t, []bool{true}, leaseBatch(t, e, engine.Ask{Max: 10, Settle: done}).Settled)
}

// leasePartly is leaseBatch while a slot fails.
func leasePartly(t *testing.T, e *redis.Engine, ask engine.Ask) engine.Batch {
	t.Helper()
	ask.Topic, ask.Node, ask.Lease = "orders", "node-1", time.Minute
	batch, err := e.Lease(ctx, ask)
	require.ErrorIs(t, err, engine.ErrPartial)
	require.ErrorContains(t, err, "WRONGTYPE")
	return batch
}

// Nobody knows what is due in a slot that does not answer, so the next look is soon.
func TestASlotThatCanNotBeAskedIsAskedAgainSoon(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	e := openEngine(t, server, redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 2})
	bad, good := inSlot(0, 2), inSlot(1, 2)
	set(t, e, engine.Task{ID: bad})
	lease(t, e, time.Minute)
	mend := breakSlot(t, server, e, bad)
	defer mend()
	set(t, e, engine.Task{ID: "{" + bad + "}2"}) // in the same slot
	set(t, e, engine.Task{ID: good})
	batch := leasePartly(t, e, engine.Ask{Max: 10})
	require.Len(t, batch.Leased, 1)
	require.Equal(t, good, batch.Leased[0].ID)
	require.WithinRange(t, batch.Next, batch.Now, batch.Now.Add(time.Second), "a task is due in the other one")
}

func TestATaskThatCanNotBeReadCostsNoOtherItsLease(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	e, client := openEngine(t, server, redis.Config{PollInterval: -1}), server.client(t)
	withTopic(t, e, engine.Topic{Slots: 1})
	for _, id := range []string{"1", "2", "3", "4"} {
		set(t, e, engine.Task{ID: id})
	}
	keys := client.Keys(ctx, e.Prefix()+":{orders:*:b").Val()
	require.Len(t, keys, 1)
	require.NoError(t, client.HSet(ctx, keys[0], "2", "x").Err())
	require.NoError(t, client.HDel(ctx, keys[0], "4").Err())
	batch := leaseBatch(t, e, engine.Ask{Max: 10})
	require.Len(t, batch.Leased, 2)
	set(t, e, engine.Task{ID: "2"})
	require.NoError(t, client.HSet(ctx, keys[0], "2", "x").Err())
	_, err := e.Lease(ctx, engine.Ask{Topic: "orders", Max: 10, Lease: time.Minute})
	require.Error(t, err, "it is not silent about it")
}

// spare returns a server with slots of orders only, and their numbers.
func spare(t *testing.T, cluster *testserver.Cluster, prefix string) (victim server, slots map[int]bool) {
	for _, master := range cluster.Masters(t) {
		victim, slots = server{master}, map[int]bool{}
		names := victim.client(t).Keys(ctx, prefix+":*:m").Val()
		for _, name := range append(names, victim.client(t).Keys(ctx, prefix+":{topics}:*").Val()...) {
			tag := strings.Split(name[strings.Index(name, "{")+1:strings.Index(name, "}")], ":")
			slot, err := strconv.Atoi(tag[len(tag)-1])
			if err != nil { // the topics, or the members
				clear(slots)
				break
			}
			slots[slot] = true
		}
		if len(slots) > 0 {
			return victim, slots
		}
	}
	t.Fatal("no server has only slots")
	return victim, nil
}

// One server is away, with tasks to be settled. Tasks on the others are not late and lose no attempt.
func TestAServerOfAClusterThatIsAwayCostsTheOthersNothing(t *testing.T) {
	t.Parallel()
	cluster, servers := startClusterOf(t, 3, "--cluster-require-full-coverage", "no")
	e := openEngine(t, servers[0], redis.Config{})
	center, err := timeout.New(e, timeout.Config{Poll: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	_, err = center.SetTopic(ctx, engine.Topic{Name: "orders", Slots: 16, Lease: time.Minute})
	require.NoError(t, err)
	victim, away := spare(t, cluster, e.Prefix())
	require.NotEmpty(t, away)

	var mu sync.Mutex
	attempts, late := map[string]int{}, time.Duration(0)
	release := make(chan struct{})
	require.NoError(t, center.Handle("orders", func(_ context.Context, task engine.Task) error {
		if strings.HasPrefix(task.ID, "held-") {
			<-release
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		attempts[task.ID] = task.Attempts
		late = max(late, time.Since(task.Due))
		return nil
	}))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- center.Run(running) }()
	defer func() { stop(); require.NoError(t, <-ended) }()
	var held, tasks []engine.Task
	for i := range 20 {
		held = append(held, engine.Task{Topic: "orders", ID: fmt.Sprint("held-", i)})
	}
	for i := 0; len(tasks) < 200; i++ {
		if id := fmt.Sprint(i); !away[engine.Slot(id, 16)] {
			tasks = append(tasks, engine.Task{Topic: "orders", ID: id, After: time.Second + time.Duration(i)*10*time.Millisecond})
		}
	}
	_, err = e.Set(ctx, append(held, tasks...))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		stats := center.Stats() // none before the first look at the topics
		return len(stats) == 1 && stats[0].Running == 20
	}, time.Minute, 5*time.Millisecond)
	victim.Kill(t)
	close(release)
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(attempts) == len(tasks) }, time.Minute, 10*time.Millisecond)
	for id, n := range attempts {
		require.Equal(t, 1, n, id)
	}
	require.Less(t, late, 30*time.Second, "none waits for the end of a lease")
	t.Logf("the latest was %v after its time", late)
}

// The share of those with a task must not go to those with none.
func TestOneTaskIsFoundAmongManySlotsThatAreAllAsked(t *testing.T) {
	t.Parallel()
	e := openEngine(t, sharedServer(t), redis.Config{PollInterval: -1})
	withTopic(t, e, engine.Topic{Slots: 16})
	for _, slot := range []int{15, 0, 7} {
		set(t, e, engine.Task{ID: inSlot(slot, 16)})
		within, cancel := context.WithTimeout(ctx, 20*time.Second)
		batch, err := e.Lease(within, engine.Ask{Topic: "orders", Max: 1, Lease: time.Minute})
		cancel()
		require.NoError(t, err)
		require.Len(t, batch.Leased, 1)
	}
}

// A slot that fails for a moment is asked again soon, also if an answer of the others comes in between.
func TestASlotThatFailsIsNotForgotten(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	e := openEngine(t, server, redis.Config{PollInterval: time.Second})
	withTopic(t, e, engine.Topic{Slots: 2})
	good, bad := inSlot(0, 2), inSlot(1, 2)
	set(t, e, engine.Task{ID: bad})
	lease(t, e, time.Minute)
	mend := breakSlot(t, server, e, bad)
	set(t, e, engine.Task{ID: "{" + bad + "}2"}) // in the same slot
	set(t, e, engine.Task{ID: good})
	for range 2 { // the second call asks the other slot alone
		batch := leasePartly(t, e, engine.Ask{Max: 10})
		require.False(t, batch.Next.IsZero())
		require.LessOrEqual(t, batch.Next.Sub(batch.Now), time.Second)
	}
	mend()
	require.Eventually(t, func() bool {
		_, err := e.Lease(ctx, engine.Ask{Topic: "orders", Node: "node-1", Max: 10, Lease: time.Hour})
		require.True(t, err == nil || errors.Is(err, engine.ErrPartial))
		return get(t, e, "{"+bad+"}2").State == engine.Running
	}, time.Minute, 50*time.Millisecond)
}

// No other slot has answered, so the time is that of an earlier call.
func TestASlotThatFailsAloneIsNotForgotten(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	e := openEngine(t, server, redis.Config{PollInterval: time.Hour})
	withTopic(t, e, engine.Topic{Slots: 16})
	bad := inSlot(3, 16)
	set(t, e, engine.Task{ID: bad})
	lease(t, e, time.Hour)
	mend := breakSlot(t, server, e, bad)
	set(t, e, engine.Task{ID: "{" + bad + "}2"}) // in the same slot
	_, err := e.Lease(ctx, engine.Ask{Topic: "orders", Slots: []int{3}, Max: 10, Lease: time.Hour})
	require.ErrorContains(t, err, "WRONGTYPE")
	mend()
	batch, err := e.Lease(ctx, engine.Ask{Topic: "orders", Node: "node-1", Max: 10, Lease: time.Hour})
	if len(batch.Leased) == 0 {
		require.ErrorIs(t, err, engine.ErrPartial)
		require.False(t, batch.Next.IsZero())
		require.LessOrEqual(t, batch.Next.Sub(batch.Now), time.Second)
	}
}
