package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
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
	slots     []int // of the victim
	questions func() int
}

// startSlow sets tasks on one server, the victim, and on the others, all due at once.
func startSlow(t *testing.T, own, others int) slow {
	cluster := testserver.RedisCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	s := slow{Engine: openEngine(t, server{cluster.Nodes[0]}, redis.Config{PollInterval: -1})}
	s.SetPatience(patience)
	s.SetLinger(time.Hour)
	withTopic(t, s.Engine, engine.Topic{Slots: 16, Lease: time.Hour})
	victim, away := spare(t, cluster, s.Prefix())
	s.victim, s.slots = victim, slices.Collect(maps.Keys(away))
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
	other, err = s.Expire(ctx, engine.Ask{Topic: "orders", Node: "a", Lease: 2 * time.Hour, Max: 100})
	require.NoError(t, err)
	require.Empty(t, other.Leased, "nor are they as long")

	ask.Max = 4
	first, err := s.Expire(ctx, ask)
	require.NoError(t, err)
	require.Len(t, first.Leased, 4)
	ask.Max = 100
	rest, err := s.Expire(ctx, ask)
	require.NoError(t, err)
	require.Len(t, rest.Leased, 16)
	waits, err = s.Peek(ctx, []engine.Peek{{Topic: "orders"}})
	require.NoError(t, err)
	require.Positive(t, waits[0], "none is left")
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

// A lease about to end is given back instead.
func TestALeaseThatHasEndedBeforeItCameIsLeasedAnew(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 3, 0)
	s.victim.Pause(t)
	const lease = 6 * patience
	batch, err := s.Expire(ctx, engine.Ask{Topic: "orders", Node: "a", Lease: lease, Max: 1000})
	require.NoError(t, err)
	require.Empty(t, batch.Leased)
	time.Sleep(lease * 2 / 3)
	s.victim.Continue(t)
	require.Eventually(t, func() bool {
		batch, err = s.Expire(ctx, engine.Ask{Topic: "orders", Node: "a", Lease: time.Hour, Max: 1000})
		require.NoError(t, err)
		return len(batch.Leased) > 0
	}, time.Minute, time.Millisecond)
	require.Len(t, ids(batch), 3)
	for _, leased := range batch.Leased {
		require.Zero(t, leased.Asked)
		require.False(t, leased.Again)
		require.Equal(t, 1, leased.Attempts, "none is lost")
	}
	s.late(t, 0)
}

// setOn sets a task that is due at once in one of some slots of 16.
func setOn(t *testing.T, e *redis.Engine, slots map[int]bool) {
	t.Helper()
	for i := 0; ; i++ {
		if task := (engine.Task{ID: fmt.Sprint(i)}); slots[engine.Slot(task.ID, 16)] {
			set(t, e, task)
			return
		}
	}
}

// The centre would ask less and less often if it were an error.
func TestAServerThatFailsIsNoFailureOfTheOthers(t *testing.T) {
	t.Parallel()
	cluster, servers := startClusterOf(t, 3, "--cluster-require-full-coverage", "no")
	e := openEngine(t, servers[0], redis.Config{PollInterval: time.Hour})
	withTopic(t, e, engine.Topic{Slots: 16})
	victim, away := spare(t, cluster, e.Prefix())
	expire(t, e, engine.Ask{Max: 1000}) // all slots are known now
	setOn(t, e, away)
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

func TestCloseTellsWhatItOwesToAServerThatWasSlow(t *testing.T) {
	t.Parallel()
	for late, most := range map[int]int{0: 0, 2: 100} {
		t.Run(fmt.Sprint("leases=", late), func(t *testing.T) {
			t.Parallel()
			s := startSlow(t, 4, 0)
			batch := expire(t, s.Engine, engine.Ask{Max: 2, Lease: time.Hour})
			require.Len(t, batch.Leased, 2)
			settled := ids(batch)
			s.victim.Pause(t)
			for _, leased := range batch.Leased { // with a question, and while it is left
				ask := engine.Ask{Lease: time.Hour, Max: most, Settle: []engine.Outcome{{Token: leased.Token, As: engine.Done}}}
				require.Equal(t, []bool{true}, expire(t, s.Engine, ask).Settled)
				require.Equal(t, 1, s.questions())
			}
			s.victim.Continue(t)
			s.late(t, late)
			require.NoError(t, s.Close())
			other := openEngine(t, s.victim, redis.Config{Prefix: s.Prefix()})
			for _, task := range s.own {
				state := engine.Pending
				if settled[task.ID] {
					state = engine.None
				}
				require.Equal(t, state, get(t, other, task.ID).State)
			}
		})
	}
}

func TestLateLeasesOfADroppedTopicAreNotThoseOfANewOne(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 3, 0)
	s.victim.Pause(t)
	batch := expire(t, s.Engine, engine.Ask{Max: 100})
	require.Empty(t, batch.Leased)
	s.victim.Continue(t)
	s.late(t, 3)
	require.NoError(t, s.DropTopic(ctx, "orders"))
	withTopic(t, s.Engine, engine.Topic{Slots: 16})
	batch = expire(t, s.Engine, engine.Ask{Max: 100})
	require.Empty(t, batch.Leased)
}

// The leases of some last attempts have ended.
func TestTasksThatDieOnAServerThatIsSlowAreToldLater(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 3, 0)
	withTopic(t, s.Engine, engine.Topic{Slots: 16, Retries: -1})
	const lease = 100 * time.Millisecond
	require.Len(t, expire(t, s.Engine, engine.Ask{Max: 100, Lease: lease}).Leased, 3)
	time.Sleep(2 * lease)
	s.victim.Pause(t)
	require.Empty(t, expire(t, s.Engine, engine.Ask{Max: 100}).Died)
	s.victim.Continue(t)
	s.late(t, 0)
	require.Len(t, expire(t, s.Engine, engine.Ask{Max: 100}).Died, 3)
	require.Empty(t, expire(t, s.Engine, engine.Ask{Max: 100}).Died)
}

// A question goes on without its caller.
func TestAQuestionThatIsLeftDoesNotEndWithItsCall(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 3, 0)
	s.victim.Pause(t)
	asking, stop := context.WithCancel(ctx)
	ask := engine.Ask{Topic: "orders", Node: "a", Lease: 100 * 365 * 24 * time.Hour, Max: 100}
	_, err := s.Expire(asking, ask)
	require.NoError(t, err)
	stop()
	_, err = s.Expire(asking, ask)
	require.ErrorIs(t, err, context.Canceled)
	s.victim.Continue(t)
	s.late(t, 3)
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

// An answer can be under way. With a long way to all servers one always is.
func TestCloseGivesBackWhatIsLeasedMeanwhile(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 3, 0)
	s.SetCloseTime(time.Minute)
	first := expire(t, s.Engine, engine.Ask{Max: 1, Lease: time.Hour}).Leased[0].ID // its server knows the script
	s.victim.Pause(t)
	require.Empty(t, expire(t, s.Engine, engine.Ask{Max: 100, Lease: time.Hour}).Leased)
	require.Equal(t, 1, s.questions())
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	time.Sleep(100 * time.Millisecond)
	s.victim.Continue(t)
	require.NoError(t, <-closed)
	other := openEngine(t, s.victim, redis.Config{Prefix: s.Prefix()})
	for _, task := range s.own {
		if task.ID == first {
			continue
		}
		found := get(t, other, task.ID)
		require.Equal(t, engine.Pending, found.State)
		require.Zero(t, found.Attempts)
	}
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

// onVictim returns the id of a task of a topic with 16 slots.
func (s slow) onVictim(t *testing.T, topic string) string {
	client := s.victim.client(t)
	for i := 0; ; i++ {
		id := fmt.Sprint(i)
		if client.Exists(ctx, s.SlotKey(topic, engine.Slot(id, 16))).Err() == nil { // else it is moved
			return id
		}
	}
}

// With a long way to all servers, each answer is late.
func TestAClusterOfSlowServersRunsEachTaskOnce(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 0, 0)
	s.SetPatience(time.Nanosecond)
	s.SetLinger(redis.Linger)
	centre, err := timeout.New(s.Engine, timeout.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ran := &runs{late: make(map[string][]time.Duration)}
	var tasks []engine.Task
	for _, topic := range []string{"orders", "bills"} {
		_, err = centre.SetTopic(ctx, engine.Topic{Name: topic, Slots: 16, Lease: time.Hour})
		require.NoError(t, err)
		require.NoError(t, centre.Handle(topic, ran.handle))
		for i := range 500 {
			tasks = append(tasks, engine.Task{Topic: topic, ID: fmt.Sprint(topic, i), After: time.Duration(i) * 4 * time.Millisecond})
		}
	}
	_, err = centre.SetAll(ctx, tasks)
	require.NoError(t, err)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- centre.Run(running) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended); require.NoError(t, centre.Close()) })
	require.Eventually(t, func() bool {
		_, all := ran.of(tasks)
		return all
	}, time.Minute, 10*time.Millisecond)
	for _, topic := range []string{"orders", "bills"} {
		require.Eventually(t, func() bool {
			counts, err := s.Count(ctx, topic)
			return err == nil && counts.Pending+counts.Running == 0
		}, time.Minute, 100*time.Millisecond, "all are settled")
	}
	late, _ := ran.of(tasks)
	require.Len(t, late, len(tasks), "each ran once")
	t.Logf("the latest was %v late", slices.Max(late))
}

// An outcome for a busy server is told with the next question to that server, however many others
// have come since. Meanwhile its lease would end, and the task would run again.
func TestOutcomesForAServerThatIsSlowDoNotWaitForOneAnother(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 12, 1)
	batch := expire(t, s.Engine, engine.Ask{Max: 100, Lease: time.Hour})
	require.Len(t, batch.Leased, 13)
	away := make(map[string]bool)
	for _, task := range s.own {
		away[task.ID] = true
	}
	s.victim.Pause(t)
	for _, leased := range batch.Leased {
		if away[leased.ID] {
			settled, err := s.Expire(ctx, engine.Ask{Topic: "orders", Lease: time.Hour, Settle: []engine.Outcome{{Token: leased.Token, As: engine.Done}}})
			require.NoError(t, err)
			require.Equal(t, []bool{true}, settled.Settled)
		}
	}
	require.Equal(t, 1, s.questions())
	s.victim.Continue(t)
	s.late(t, 0)
	expire(t, s.Engine, engine.Ask{Max: 1})
	for _, task := range s.own {
		require.Equal(t, engine.None, get(t, s.Engine, task.ID).State)
	}
}

// A topic with much to do on a slow server keeps no other topic from asking that server.
func TestEachTopicHasAQuestionForAServerThatIsSlow(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 1, 0)
	_, err := s.SetTopic(ctx, engine.Topic{Name: "bills", Slots: 16}, false)
	require.NoError(t, err)
	_, err = s.Set(ctx, []engine.Task{{Topic: "bills", ID: s.onVictim(t, "bills")}})
	require.NoError(t, err)
	s.victim.Pause(t)
	for _, topic := range []string{"orders", "bills"} {
		batch, err := s.Expire(ctx, engine.Ask{Topic: topic, Node: "a", Lease: time.Hour, Max: 100})
		require.NoError(t, err)
		require.Empty(t, batch.Leased)
	}
	s.victim.Continue(t)
	require.Eventually(t, func() bool { return s.questions() == 0 }, time.Minute, time.Millisecond)
	leases, _ := s.Late("bills")
	require.Equal(t, 1, leases)
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

// After a late failure the engine still knows of something due on that server.
func TestAQuestionThatFailsLateIsAskedAgainSoon(t *testing.T) {
	t.Parallel()
	cluster := testserver.RedisCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	e := openEngine(t, server{cluster.Nodes[0]}, redis.Config{PollInterval: time.Hour})
	e.SetPatience(patience)
	withTopic(t, e, engine.Topic{Slots: 16})
	victim, away := spare(t, cluster, e.Prefix())
	expire(t, e, engine.Ask{Max: 1000}) // all slots are known now
	setOn(t, e, away)
	victim.Pause(t)
	expire(t, e, engine.Ask{Max: 1})
	_, questions := e.Late("orders")
	require.Equal(t, 1, questions)
	victim.Kill(t)
	require.Eventually(t, func() bool { _, questions := e.Late("orders"); return questions == 0 }, time.Minute, time.Millisecond)
	for range 16 { // some of them ask live servers
		batch := expire(t, e, engine.Ask{Max: 1})
		require.False(t, batch.Next.IsZero())
		require.LessOrEqual(t, batch.Next.Sub(batch.Now), time.Second)
	}
}

// A call of Wake may ask the engine.
func TestWhoIsWokenMayAskTheEngine(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 3, 0)
	listening, stop := context.WithCancel(ctx)
	ended, leased := make(chan error, 1), make(chan int, 100)
	go func() {
		ended <- s.Wake(listening, func(string) {
			batch, err := s.Expire(ctx, engine.Ask{Topic: "orders", Node: "a", Lease: time.Hour, Max: 100})
			if err == nil {
				leased <- len(batch.Leased)
			}
		})
	}()
	require.Equal(t, 3, <-leased, "it listens")
	for _, task := range s.own {
		set(t, s.Engine, task)
	}
	s.victim.Pause(t)
	_, err := s.Expire(ctx, engine.Ask{Topic: "orders", Node: "a", Lease: time.Hour, Max: 100})
	require.NoError(t, err)
	s.victim.Continue(t)
	for n := 0; n < 3; {
		select {
		case more := <-leased:
			n += more
		case <-time.After(time.Minute):
			require.Fail(t, "nobody is woken")
		}
	}
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// A worker without room, or none, has no use for late leases: they cost no attempt.
func TestLateLeasesWithoutATakerAreGivenBack(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 3, 0)
	s.SetLinger(3 * patience)
	woken := make(chan string, 100)
	listening, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Wake(listening, func(topic string) { woken <- topic }) }()
	require.Empty(t, <-woken, "it listens")
	s.victim.Pause(t)
	batch, err := s.Expire(ctx, engine.Ask{Topic: "orders", Node: "a", Lease: time.Hour, Max: 100})
	require.NoError(t, err)
	require.Empty(t, batch.Leased)
	s.victim.Continue(t)
	s.late(t, 3)
	for len(woken) > 0 {
		<-woken
	}
	require.Eventually(t, func() bool {
		counts, err := s.Count(ctx, "orders")
		return err == nil && counts.Pending == 3
	}, time.Minute, 10*time.Millisecond)
	select {
	case topic := <-woken:
		require.Equal(t, "orders", topic, "they are due again")
	case <-time.After(time.Minute):
		require.Fail(t, "nobody is woken")
	}
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
	batch = expire(t, s.Engine, engine.Ask{Max: 100})
	require.Len(t, batch.Leased, 3)
	for _, leased := range batch.Leased {
		require.Equal(t, 1, leased.Attempts)
		require.False(t, leased.Again)
		require.Zero(t, leased.Asked)
	}
}

// A server is to be waited for once, since it has leased in vain. Nobody asks it about that topic any more.
func TestNothingIsLeftOfADroppedTopic(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 3, 0)
	s.SetLinger(time.Nanosecond)
	s.victim.Pause(t)
	expire(t, s.Engine, engine.Ask{Max: 100, Lease: time.Hour})
	s.victim.Continue(t)
	require.Eventually(t, func() bool { return s.InVain() == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, s.DropTopic(ctx, "orders"))
	_, err := s.Topics(ctx)
	require.NoError(t, err)
	require.Zero(t, s.InVain())
}

// Without it each call asks the server of the topics, even a hanging one.
func TestTheTimeIsKnownFromLateAnswers(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 1, 0)
	s.victim.Pause(t)
	require.Empty(t, expire(t, s.Engine, engine.Ask{Max: 100, Slots: s.slots}).Leased)
	require.Zero(t, s.Clock())
	s.victim.Continue(t)
	s.late(t, 1)
	require.WithinDuration(t, time.Now(), s.Clock(), time.Minute)
}

// A task can be set anew while its lease is late, and that lease is void then.
func TestALateLeaseIsNotThatOfATaskSetAnew(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} { // whether the late lease is of a second attempt
		t.Run(fmt.Sprint("again=", again), func(t *testing.T) {
			t.Parallel()
			s := startSlow(t, 1, 0)
			if again {
				const lease = 10 * time.Millisecond
				require.Len(t, expire(t, s.Engine, engine.Ask{Max: 1, Lease: lease}).Leased, 1)
				time.Sleep(2 * lease)
			}
			s.victim.Pause(t)
			ask := engine.Ask{Node: "a", Max: 100, Lease: time.Hour}
			require.Empty(t, expire(t, s.Engine, ask).Leased)
			s.victim.Continue(t)
			s.late(t, 1)
			set(t, s.Engine, s.own[0])
			batch := expire(t, s.Engine, ask)
			require.Len(t, batch.Leased, 1)
			done := []engine.Outcome{{Token: batch.Leased[0].Token, As: engine.Done}}
			require.Equal(t, []bool{true}, expire(t, s.Engine, engine.Ask{Settle: done}).Settled)
		})
	}
}

// Each late answer would lead to another question at once, and nothing to do would keep all busy.
func TestALateAnswerWakesNobodyForNothing(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 3, 0)
	_, err := s.SetTopic(ctx, engine.Topic{Name: "bills"}, false)
	require.NoError(t, err)
	batch := expire(t, s.Engine, engine.Ask{Max: 100, Lease: time.Hour})
	require.Len(t, batch.Leased, 3)
	woken := make(chan string, 100)
	listening, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Wake(listening, func(topic string) { woken <- topic }) }()
	require.Empty(t, <-woken, "it listens")
	who := func() string {
		select {
		case topic := <-woken:
			return topic
		case <-time.After(time.Minute):
			return "nobody"
		}
	}
	due := 0
	next := func() string { // who is woken before one more topic is
		due++
		_, err := s.Set(ctx, []engine.Task{{Topic: "bills", ID: fmt.Sprint(due), Due: time.Now().Add(-time.Duration(due) * time.Minute)}})
		require.NoError(t, err)
		return who()
	}
	answer := func(most int, outcomes ...[]engine.Outcome) {
		s.victim.Pause(t)
		for _, settle := range outcomes {
			require.Empty(t, expire(t, s.Engine, engine.Ask{Max: most, Lease: time.Hour, Settle: settle}).Leased)
		}
		s.victim.Continue(t)
		s.late(t, 0)
	}
	answer(100, nil)
	require.Equal(t, "bills", next())
	answer(100, nil, []engine.Outcome{{Token: batch.Leased[0].Token, As: engine.Done}})
	require.Equal(t, "orders", who(), "the server is to be told something")
	require.Equal(t, "bills", next())
	expire(t, s.Engine, engine.Ask{Max: 100, Lease: time.Hour})
	answer(100, nil)
	require.Equal(t, "bills", next())
	answer(0, []engine.Outcome{{Token: batch.Leased[1].Token, As: engine.Pending}})
	require.Equal(t, "orders", who(), "something is due")
	require.Equal(t, "bills", next())
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// A worker has to know when to ask, or else it asks a second later.
func TestWhatABusyServerHasIsDueInTime(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 1, 0)
	set(t, s.Engine, engine.Task{ID: s.own[0].ID, After: 4 * patience})
	due := get(t, s.Engine, s.own[0].ID).Due
	expire(t, s.Engine, engine.Ask{Max: 100}) // it knows of the task
	s.victim.Pause(t)
	known := false
	for now := due.Add(-1); now.Before(due) && !known; time.Sleep(10 * time.Millisecond) {
		batch := expire(t, s.Engine, engine.Ask{Max: 100, Lease: time.Hour})
		now, known = batch.Now, batch.Next.Equal(due)
	}
	require.True(t, known)
	s.victim.Continue(t)
}

// A worker may have no room for more tasks, or may have ended. The lease would end, and another node would run the
// task again.
func TestWhatIsOwedToAServerThatWasSlowIsToldWithoutAnotherCall(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 2, 0)
	batch := expire(t, s.Engine, engine.Ask{Max: 100, Lease: time.Hour})
	require.Len(t, batch.Leased, 2)
	s.victim.Pause(t)
	for _, leased := range batch.Leased { // with a question, and while it is left
		expire(t, s.Engine, engine.Ask{Lease: time.Hour, Settle: []engine.Outcome{{Token: leased.Token, As: engine.Done}}})
		require.Equal(t, 1, s.questions())
	}
	s.victim.Continue(t)
	require.Eventually(t, func() bool {
		return get(t, s.Engine, s.own[0].ID).State == engine.None && get(t, s.Engine, s.own[1].ID).State == engine.None
	}, time.Minute, 10*time.Millisecond)
}

func TestALeaseGivenBackInVainIsGivenBackAgain(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 1, 0)
	s.SetLinger(5 * patience)
	s.victim.Pause(t)
	require.Empty(t, expire(t, s.Engine, engine.Ask{Max: 100, Lease: time.Hour}).Leased)
	s.victim.Continue(t)
	s.late(t, 1)
	mend := breakSlot(t, s.victim, s.Engine, s.own[0].ID)
	s.late(t, 0)
	require.Eventually(t, func() bool { return s.Owes("orders") }, time.Minute, time.Millisecond)
	mend()
	require.Eventually(t, func() bool {
		found := get(t, s.Engine, s.own[0].ID)
		return found.State == engine.Pending && found.Attempts == 0
	}, time.Minute, 10*time.Millisecond)
}

// This engine hears of tasks of other nodes, and not of their ends.
func TestALateAnswerWakesNobodyForTheSlotsOfOthers(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 0, 0)
	require.Greater(t, len(s.slots), 1)
	woken := make(chan string, 100)
	listening, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Wake(listening, func(topic string) { woken <- topic }) }()
	require.Empty(t, <-woken, "it listens")
	for _, others := range [][]int{s.slots[1:], s.slots} {
		expire(t, s.Engine, engine.Ask{Max: 100})
		s.victim.Pause(t)
		require.Empty(t, expire(t, s.Engine, engine.Ask{Max: 100, Slots: s.slots[:1]}).Leased)
		require.Equal(t, 1, s.questions())
		for _, slot := range others {
			s.Suppose("orders", slot)
		}
		s.victim.Continue(t)
		s.late(t, 0)
		if len(others) < len(s.slots) {
			time.Sleep(100 * time.Millisecond)
			require.Empty(t, woken)
		}
	}
	require.Equal(t, "orders", <-woken)
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// Who asks about outcomes alone waits for their servers.
func TestAnOutcomeDoesNotWaitForWhatIsOwedToAServerThatIsSlow(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 2, 1)
	batch := expire(t, s.Engine, engine.Ask{Max: 100, Lease: time.Hour})
	require.Len(t, batch.Leased, 3)
	var other []engine.Outcome
	s.victim.Pause(t)
	for _, leased := range batch.Leased {
		done := []engine.Outcome{{Token: leased.Token, As: engine.Done}}
		if leased.ID == s.others[0].ID {
			other = done
			continue
		}
		expire(t, s.Engine, engine.Ask{Lease: time.Hour, Settle: done})
	}
	require.True(t, s.Owes("orders"))
	answered := make(chan error, 1)
	go func() {
		_, err := s.Expire(ctx, engine.Ask{Topic: "orders", Settle: other})
		answered <- err
	}()
	select {
	case err := <-answered:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		require.Fail(t, "it waits")
	}
	require.True(t, s.Owes("orders"))
	s.victim.Continue(t)
	require.Eventually(t, func() bool { return !s.Owes("orders") }, time.Minute, 10*time.Millisecond)
}

// The next attempt would come later.
func TestCloseTellsWhatASlotHasRefusedJustNow(t *testing.T) {
	t.Parallel()
	s := startSlow(t, 1, 1)
	batch := expire(t, s.Engine, engine.Ask{Max: 100, Lease: time.Hour})
	require.Len(t, batch.Leased, 2)
	mend := breakSlot(t, s.victim, s.Engine, s.own[0].ID)
	var done []engine.Outcome
	for _, leased := range batch.Leased {
		done = append(done, engine.Outcome{Token: leased.Token, As: engine.Done})
	}
	expire(t, s.Engine, engine.Ask{Max: 1, Settle: done})
	require.True(t, s.Owes("orders"))
	mend()
	require.NoError(t, s.Close())
	other := openEngine(t, s.victim, redis.Config{Prefix: s.Prefix()})
	require.Equal(t, engine.None, get(t, other, s.own[0].ID).State)
}

// A long way to all servers is nothing that a question must be left for: a call that asks now and then would never
// have a lease, since each comes too late for it.
func TestAServerFarAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	cluster := testserver.RedisCluster(t, 3, 0)
	e := openFar(t, cluster, func(string) time.Duration { return 2 * redis.Patience })
	e.SetLinger(time.Nanosecond)
	withTopic(t, e, engine.Topic{Slots: 16})
	set(t, e, engine.Task{ID: "1"})
	require.Eventually(t, func() bool {
		batch := expire(t, e, engine.Ask{Max: 1, Lease: time.Hour})
		return len(batch.Leased) == 1 && batch.Leased[0].Asked.IsZero()
	}, time.Minute, 10*time.Millisecond)
}

// A worker may have room for one task again and again, and more to do on the others. Each lease of a server far from
// these comes while it has none.
func TestAServerFartherAwayThanTheOthersIsWaitedForOnceItHasLeasedInVain(t *testing.T) {
	t.Parallel()
	cluster := testserver.RedisCluster(t, 3, 0)
	var victim atomic.Value
	e := openFar(t, cluster, func(addr string) time.Duration {
		if addr == victim.Load() {
			return 5 * redis.Patience
		}
		return 0
	})
	e.SetLinger(time.Nanosecond)
	withTopic(t, e, engine.Topic{Slots: 16, Lease: time.Hour})
	server, slots := spare(t, cluster, e.Prefix())
	victim.Store(server.Addr)
	tasks := make([]engine.Task, 1000)
	for i := range tasks {
		tasks[i] = engine.Task{Topic: "orders", ID: fmt.Sprint(i)}
		if slots[engine.Slot(tasks[i].ID, 16)] {
			tasks[i].Due = time.Now().Add(-time.Hour)
		}
	}
	_, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		for _, leased := range expire(t, e, engine.Ask{Max: 1, Lease: time.Hour}).Leased {
			if slots[engine.Slot(leased.ID, 16)] {
				return true
			}
		}
		require.Eventually(t, func() bool { // a task runs meanwhile
			leases, questions := e.Late("orders")
			return leases+questions == 0
		}, time.Minute, time.Millisecond)
		return false
	}, 2*time.Minute, time.Millisecond)
}

// Otherwise the questions of an idle topic would wait for the server, and those of the other one never. So it is with
// questions about outcomes alone.
func TestOnlyTheTopicLeasedInVainWaitsOnceForThat(t *testing.T) {
	t.Parallel()
	waits := redis.VainWaits("mails", "outcomes of orders", "orders", "orders", "mails")
	require.Positive(t, waits[2])
	require.Equal(t, []time.Duration{0, 0, waits[2], 0, 0}, waits)
}

func TestTheUsualTimeOfAServerRisesSlowlyAndFallsAtOnce(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	var usual time.Duration
	after := func(took time.Duration) time.Duration {
		usual = redis.Adapt(usual, took, 50*ms)
		return usual
	}
	require.Equal(t, 8*ms, after(64*ms))
	require.Equal(t, 15*ms, after(64*ms))
	require.Equal(t, ms, after(ms))
	require.Less(t, after(time.Hour), 14*ms, "it was stopped")
	require.Equal(t, ms, after(ms))
	for range 100 {
		after(200 * ms)
	}
	require.InDelta(t, 200*ms, usual, float64(ms))
	for range 100 {
		after(time.Hour)
	}
	require.InDelta(t, 400*ms, usual, float64(ms), "nobody is that far away")
}

// A server far away is waited for, and one that is always slow makes the others late by a bounded time.
func TestHowLongServersAreWaitedFor(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	wait := func(slowest, fastest, vain, lease time.Duration) time.Duration {
		return redis.Wait(slowest, fastest, vain, 50*ms, lease)
	}
	require.Equal(t, 50*ms, wait(0, 0, 0, time.Hour))
	require.Equal(t, 350*ms, wait(300*ms, 290*ms, 0, time.Hour))
	require.Equal(t, 130*ms, wait(80*ms, ms, 0, time.Hour))
	require.Equal(t, 151*ms, wait(300*ms, ms, 0, time.Hour))
	require.Equal(t, 350*ms, wait(300*ms, ms, 300*ms, time.Hour))
	require.Equal(t, 151*ms, wait(300*ms, ms, 20*ms, time.Hour))

	// What the others have leased has half of its time left then, and the shortest lease takes 100 ms.
	require.Equal(t, 350*ms, wait(300*ms, ms, 300*ms, 700*ms))
	require.Equal(t, 151*ms, wait(300*ms, ms, 300*ms, 600*ms), "this would lease in vain again")
	require.Equal(t, 100*ms, wait(300*ms, ms, 0, 200*ms))
	require.Equal(t, 50*ms, wait(300*ms, ms, 0, 100*ms))
}

// A question may concern a slow server alone. The others have to wait for its end, with what becomes due meanwhile.
func TestAQuestionToASlowServerAloneIsNotWaitedForLonger(t *testing.T) {
	t.Parallel()
	slow, others := redis.UsualOfOne(300*time.Millisecond, time.Millisecond)
	require.Equal(t, 300*time.Millisecond, slow)
	require.Equal(t, time.Millisecond, others)
}
