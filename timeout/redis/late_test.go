package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// patience of the engines of these tests: the servers that live answer in that time on a busy machine, too.
const patience = time.Second

// slow is a Cluster of which one server is to be slow.
type slow struct {
	*redis.Engine
	victim    server // with slots of orders only
	own       []engine.Task
	others    []engine.Task
	questions func() int
}

// startSlow sets tasks on one server, the victim, and on the others, all due at once.
func startSlow(t *testing.T, own, others int) slow {
	cluster := testserver.RedisCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	s := slow{Engine: openEngine(t, server{cluster.Nodes[0]}, redis.Config{PollInterval: -1})}
	s.SetPatience(patience)
	withTopic(t, s.Engine, engine.Topic{Slots: 16})
	victim, away := spare(t, cluster, s.Prefix())
	s.victim = victim
	for i := 0; len(s.own) < own || len(s.others) < others; i++ {
		task := engine.Task{Topic: "orders", ID: fmt.Sprint(i)}
		switch of := away[engine.Slot(task.ID, 16)]; {
		case of && len(s.own) < own:
			s.own = append(s.own, task)
		case !of && len(s.others) < others:
			s.others = append(s.others, task)
		}
	}
	_, err := s.Set(ctx, append(s.own[:own:own], s.others...))
	require.NoError(t, err)
	s.questions = func() int {
		_, questions := s.Late("orders")
		return questions
	}
	return s
}

// late waits until so many leases have come late.
func (s slow) late(t *testing.T, want int) {
	t.Helper()
	require.Eventually(t, func() bool {
		leases, questions := s.Late("orders")
		return leases == want && questions == 0
	}, time.Minute, time.Millisecond)
}

func ids(batch engine.Batch) map[string]bool {
	ids := make(map[string]bool)
	for _, leased := range batch.Leased {
		ids[leased.ID] = true
	}
	return ids
}

func TestWhatAServerLeasesTooLateIsForTheNextCall(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 20, 5)
	woken := make(chan string, 100)
	listening, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Wake(listening, func(topic string) { woken <- topic }) }()
	require.Empty(t, <-woken, "it listens")

	s.victim.Pause(t)
	began := time.Now()
	ask := engine.Ask{Topic: "orders", Node: "a", Lease: time.Hour, Max: 1000}
	batch, err := s.Expire(ctx, ask)
	require.NoError(t, err)
	asked := time.Now()
	require.Len(t, batch.Leased, 5, "those of the others")
	require.Equal(t, 1, s.questions())
	require.WithinRange(t, batch.Next, batch.Now, batch.Now.Add(time.Second), "nobody knows what is due there")
	for range 3 {
		batch, err = s.Expire(ctx, ask)
		require.NoError(t, err)
		require.Empty(t, batch.Leased)
		require.WithinDuration(t, time.Now(), batch.Now, time.Minute)
		require.Equal(t, 1, s.questions(), "it is not asked again")
	}

	s.victim.Continue(t)
	s.late(t, 20)
	set(t, s.Engine, engine.Task{ID: s.others[0].ID})
	require.Equal(t, "orders", <-woken)
	waits, err := s.Peek(ctx, []engine.Peek{{Topic: "orders"}})
	require.NoError(t, err)
	require.LessOrEqual(t, waits[0], time.Duration(0))
	other, err := s.Expire(ctx, engine.Ask{Topic: "orders", Node: "b", Lease: time.Hour, Max: 100})
	require.NoError(t, err)
	require.Len(t, other.Leased, 1, "the leases of a are not those of b")
	require.Zero(t, other.Leased[0].Asked)

	ask.Max = 4
	first, err := s.Expire(ctx, ask)
	require.NoError(t, err)
	require.Len(t, first.Leased, 4)
	ask.Max = 100
	rest, err := s.Expire(ctx, ask)
	require.NoError(t, err)
	require.Len(t, rest.Leased, 16)
	var done []engine.Outcome
	for _, leased := range append(first.Leased, rest.Leased...) {
		require.WithinRange(t, leased.Asked, began, asked)
		require.Equal(t, 1, leased.Attempts)
		done = append(done, engine.Outcome{Token: leased.Token, As: engine.Done})
	}
	batch, err = s.Expire(ctx, engine.Ask{Topic: "orders", Settle: done})
	require.NoError(t, err)
	require.NotContains(t, batch.Settled, false)
	counts, err := s.Count(ctx, "orders")
	require.NoError(t, err)
	require.EqualValues(t, 5, counts.Running)
	require.Zero(t, counts.Pending)
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// An outcome for a server that does not answer counts as settled, and is told later. Who has no wish for leases
// waits instead.
func TestAnOutcomeForAServerThatIsSlowIsToldLater(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 3, 1)
	batch := expire(t, s.Engine, engine.Ask{Max: 100, Lease: time.Hour})
	require.Len(t, batch.Leased, 4)
	outcome := make(map[string]engine.Outcome)
	for _, leased := range batch.Leased {
		outcome[leased.ID] = engine.Outcome{Token: leased.Token, As: engine.Done}
	}
	of := func(tasks ...engine.Task) (outcomes []engine.Outcome) {
		for _, task := range tasks {
			outcomes = append(outcomes, outcome[task.ID])
		}
		return outcomes
	}
	s.victim.Pause(t)
	for i, settle := range [][]engine.Outcome{of(s.own[0], s.others[0]), of(s.own[1])} { // with its question, and while it has one
		batch, err := s.Expire(ctx, engine.Ask{Topic: "orders", Lease: time.Hour, Settle: settle})
		require.NoError(t, err)
		require.NotContains(t, batch.Settled, false)
		require.Equal(t, 1, s.questions(), i)
	}
	require.Equal(t, engine.None, get(t, s.Engine, s.others[0].ID).State)
	answered := make(chan engine.Batch, 1)
	go func() {
		batch, err := s.Expire(ctx, engine.Ask{Topic: "orders", Settle: of(s.own[2])})
		if err == nil {
			answered <- batch
		}
		close(answered)
	}()
	select {
	case <-answered:
		require.Fail(t, "nobody knows that yet")
	case <-time.After(2 * patience):
	}
	s.victim.Continue(t)
	require.Equal(t, []bool{true}, (<-answered).Settled)
	require.Eventually(t, func() bool {
		expire(t, s.Engine, engine.Ask{Max: 10})
		return get(t, s.Engine, s.own[1].ID).State == engine.None
	}, time.Minute, 50*time.Millisecond)
	require.Equal(t, engine.None, get(t, s.Engine, s.own[0].ID).State)
	require.Equal(t, engine.None, get(t, s.Engine, s.own[2].ID).State)
}

func TestALeaseThatHasEndedBeforeItCameIsLeasedAgain(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 3, 0)
	s.victim.Pause(t)
	const lease = 300 * time.Millisecond
	batch, err := s.Expire(ctx, engine.Ask{Topic: "orders", Node: "a", Lease: lease, Max: 1000})
	require.NoError(t, err)
	require.Empty(t, batch.Leased)
	s.victim.Continue(t)
	s.late(t, 3)
	time.Sleep(lease)
	require.Eventually(t, func() bool {
		batch, err = s.Expire(ctx, engine.Ask{Topic: "orders", Node: "a", Lease: time.Hour, Max: 1000})
		require.NoError(t, err)
		return len(batch.Leased) > 0
	}, time.Minute, time.Millisecond)
	require.Len(t, ids(batch), 3)
	for _, leased := range batch.Leased {
		require.Zero(t, leased.Asked)
		require.True(t, leased.Again)
		require.Equal(t, 2, leased.Attempts)
	}
	s.late(t, 0)
}

// The centre would ask less and less often if it were an error.
func TestAServerThatFailsIsNoFailureOfTheOthers(t *testing.T) {
	t.Parallel()
	cluster, servers := startClusterOf(t, 3, "--cluster-require-full-coverage", "no")
	e := openEngine(t, servers[0], redis.Config{PollInterval: time.Hour})
	withTopic(t, e, engine.Topic{Slots: 16})
	victim, away := spare(t, cluster, e.Prefix())
	expire(t, e, engine.Ask{Max: 1000}) // all slots are known now
	for i := 0; ; i++ {
		if task := (engine.Task{ID: fmt.Sprint(i)}); away[engine.Slot(task.ID, 16)] {
			set(t, e, task)
			break
		}
	}
	victim.Kill(t)
	batch := expire(t, e, engine.Ask{Max: 1000}) // asks the one slot with a task
	require.Empty(t, batch.Leased)
	require.WithinRange(t, batch.Next, batch.Now, batch.Now.Add(time.Second))
	require.WithinDuration(t, time.Now(), batch.Now, time.Minute)
	for _, one := range servers {
		if one.Addr != victim.Addr {
			one.Kill(t)
		}
	}
	require.Eventually(t, func() bool {
		for i := range 16 { // all that is known is out of date
			e.Suppose("orders", i)
		}
		_, err := e.Expire(ctx, engine.Ask{Topic: "orders", Max: 1000, Lease: time.Minute})
		return err != nil
	}, time.Minute, time.Millisecond)
}

func TestCloseWaitsForWhatIsLeftWithAServer(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 3, 0)
	s.victim.Pause(t)
	_, err := s.Expire(ctx, engine.Ask{Topic: "orders", Lease: time.Hour, Max: 10})
	require.NoError(t, err)
	require.Equal(t, 1, s.questions())
	require.NoError(t, s.Close())
	require.Zero(t, s.questions())
	_, err = s.Expire(ctx, engine.Ask{Topic: "orders", Lease: time.Hour, Max: 10})
	require.ErrorIs(t, err, engine.ErrClosed)
	s.victim.Continue(t)
}

// A server that stops for moments leases in its own time, and each task runs once and long before the end of a
// lease.
func TestAServerOfAClusterThatStopsForMomentsLosesNoLease(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 0, 0)
	s.SetPatience(redis.Patience)
	centre, err := timeout.New(s.Engine, timeout.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	_, err = centre.SetTopic(ctx, engine.Topic{Name: "orders", Lease: time.Hour})
	require.NoError(t, err)
	var tasks []engine.Task
	for i := range 1000 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i), After: time.Duration(i) * 4 * time.Millisecond})
	}
	_, err = centre.SetAll(ctx, tasks)
	require.NoError(t, err)
	ran := &runs{late: make(map[string][]time.Duration)}
	require.NoError(t, centre.Handle("orders", ran.handle))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- centre.Run(running) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended); require.NoError(t, centre.Close()) })
	for range 8 {
		s.victim.Pause(t)
		time.Sleep(6 * redis.Patience)
		s.victim.Continue(t)
		time.Sleep(2 * redis.Patience)
	}
	require.Eventually(t, func() bool {
		_, all := ran.of(tasks)
		return all
	}, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		counts, err := s.Count(ctx, "orders")
		return err == nil && counts.Pending+counts.Running == 0
	}, time.Minute, 100*time.Millisecond, "all are settled")
	late, _ := ran.of(tasks)
	require.Len(t, late, len(tasks), "each ran once")
}

// A caller may use its slice again, though a question about it is still under way.
func TestOutcomesBelongToTheirCallerAgain(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 1, 0)
	batch := expire(t, s.Engine, engine.Ask{Max: 100, Lease: time.Hour})
	require.Len(t, batch.Leased, 1)
	mend := breakSlot(t, s.victim, s.Engine, batch.Leased[0].ID)
	s.victim.Pause(t)
	settle := []engine.Outcome{{Token: batch.Leased[0].Token, As: engine.Done}}
	_, err := s.Expire(ctx, engine.Ask{Topic: "orders", Lease: time.Hour, Settle: settle})
	require.NoError(t, err)
	require.Equal(t, 1, s.questions())
	settle[0] = engine.Outcome{}
	s.victim.Continue(t)
	s.late(t, 0)
	mend()
	require.Eventually(t, func() bool {
		expire(t, s.Engine, engine.Ask{Max: 1})
		return get(t, s.Engine, batch.Leased[0].ID).State == engine.None
	}, time.Minute, 50*time.Millisecond)
}

// Nobody forgets that something is due on a server because a question to it has failed late.
func TestAQuestionThatFailsLateIsAskedAgainSoon(t *testing.T) {
	t.Parallel()
	cluster := testserver.RedisCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	e := openEngine(t, server{cluster.Nodes[0]}, redis.Config{PollInterval: time.Hour})
	e.SetPatience(patience)
	withTopic(t, e, engine.Topic{Slots: 16})
	victim, away := spare(t, cluster, e.Prefix())
	expire(t, e, engine.Ask{Max: 1000}) // all slots are known now
	for i := 0; ; i++ {
		if task := (engine.Task{ID: fmt.Sprint(i)}); away[engine.Slot(task.ID, 16)] {
			set(t, e, task)
			break
		}
	}
	victim.Pause(t)
	expire(t, e, engine.Ask{Max: 1})
	_, questions := e.Late("orders")
	require.Equal(t, 1, questions)
	victim.Kill(t)
	require.Eventually(t, func() bool { _, questions := e.Late("orders"); return questions == 0 }, time.Minute, time.Millisecond)
	for range 16 { // some of them ask servers that live
		batch := expire(t, e, engine.Ask{Max: 1})
		require.False(t, batch.Next.IsZero())
		require.LessOrEqual(t, batch.Next.Sub(batch.Now), time.Second)
	}
}
