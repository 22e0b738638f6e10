package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// inSlot returns an id of a slot.
func inSlot(slot, slots int) string {
	for i := 0; ; i++ {
		if id := fmt.Sprint("id-", i); timeout.Slot(id, slots) == slot {
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
	engine := openEngine(t, server, redis.Config{PollInterval: -1})
	withTopic(t, engine, timeout.Topic{Slots: 2})
	bad, good := inSlot(0, 2), inSlot(1, 2)
	set(t, engine, timeout.Task{ID: bad})
	first := lease(t, engine, time.Minute)
	mend := breakSlot(t, server, engine, bad)
	set(t, engine, timeout.Task{ID: good})
	done := []timeout.Outcome{{Token: first.Token, As: timeout.Done}}
	batch := expire(t, engine, timeout.Ask{Max: 10, Settle: done})
	require.Len(t, batch.Leased, 1)
	require.Equal(t, good, batch.Leased[0].ID)
	require.Equal(t, []bool{true}, batch.Settled)

	held, err := engine.Extend(ctx, []timeout.Token{first.Token, batch.Leased[0].Token}, time.Hour)
	require.ErrorIs(t, err, timeout.ErrPartial)
	require.Equal(t, []bool{false, true}, held)
	_, err = engine.Expire(ctx, timeout.Ask{Topic: "orders", Settle: done})
	require.ErrorContains(t, err, "WRONGTYPE", "who wants nothing but that can ask again")

	mend()
	require.Equal(t, timeout.Running, get(t, engine, bad).State)
	require.Eventually(t, func() bool {
		expire(t, engine, timeout.Ask{Max: 10})
		return get(t, engine, bad).State == timeout.None
	}, time.Minute, 50*time.Millisecond, "it is told later")
}

func TestATaskThatCanNotBeReadCostsNoOtherItsLease(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	engine, client := openEngine(t, server, redis.Config{PollInterval: -1}), server.client(t)
	withTopic(t, engine, timeout.Topic{Slots: 1})
	for _, id := range []string{"1", "2", "3"} {
		set(t, engine, timeout.Task{ID: id})
	}
	keys := client.Keys(ctx, engine.Prefix()+":{orders:*:b").Val()
	require.Len(t, keys, 1)
	require.NoError(t, client.HSet(ctx, keys[0], "2", "x").Err())
	batch := expire(t, engine, timeout.Ask{Max: 10})
	require.Len(t, batch.Leased, 2)
	set(t, engine, timeout.Task{ID: "2"})
	require.NoError(t, client.HSet(ctx, keys[0], "2", "x").Err())
	_, err := engine.Expire(ctx, timeout.Ask{Topic: "orders", Max: 10, Lease: time.Minute})
	require.Error(t, err, "it is not silent about it")
}

// spare returns a server that has only slots of orders, and which.
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

// What is on servers that answer is neither late nor loses an attempt, while tasks are to be
// settled on one that is away.
func TestAServerOfAClusterThatIsAwayCostsTheOthersNothing(t *testing.T) {
	t.Parallel()
	cluster, servers := startClusterOf(t, 3, "--cluster-require-full-coverage", "no")
	engine := openEngine(t, servers[0], redis.Config{})
	centre, err := timeout.New(engine, timeout.Config{Poll: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	_, err = centre.SetTopic(ctx, timeout.Topic{Name: "orders", Slots: 16, Lease: time.Minute})
	require.NoError(t, err)
	victim, away := spare(t, cluster, engine.Prefix())
	require.NotEmpty(t, away)

	var mu sync.Mutex
	attempts, late := map[string]int{}, time.Duration(0)
	release := make(chan struct{})
	require.NoError(t, centre.Handle("orders", func(_ context.Context, task timeout.Task) error {
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
	go func() { ended <- centre.Run(running) }()
	defer func() { stop(); require.NoError(t, <-ended) }()
	var held, tasks []timeout.Task
	for i := range 20 {
		held = append(held, timeout.Task{Topic: "orders", ID: fmt.Sprint("held-", i)})
	}
	for i := 0; len(tasks) < 200; i++ {
		if id := fmt.Sprint(i); !away[timeout.Slot(id, 16)] {
			tasks = append(tasks, timeout.Task{Topic: "orders", ID: id, After: time.Second + time.Duration(i)*10*time.Millisecond})
		}
	}
	_, err = engine.Set(ctx, append(held, tasks...))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return centre.Stats()[0].Running == 20 }, time.Minute, 5*time.Millisecond)
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
	engine := openEngine(t, sharedServer(t), redis.Config{PollInterval: -1})
	withTopic(t, engine, timeout.Topic{Slots: 16})
	for _, slot := range []int{15, 0, 7} {
		set(t, engine, timeout.Task{ID: inSlot(slot, 16)})
		within, cancel := context.WithTimeout(ctx, 20*time.Second)
		batch, err := engine.Expire(within, timeout.Ask{Topic: "orders", Max: 1, Lease: time.Minute})
		cancel()
		require.NoError(t, err)
		require.Len(t, batch.Leased, 1)
	}
}
