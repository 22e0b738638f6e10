package timeout_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// pullRig is a rig with a pulled topic. The node would serve all topics.
func pullRig(t *testing.T, topic timeout.Topic) *rig {
	t.Helper()
	r, _ := withTargets(t, timeout.Topic{})
	return r.pulled(topic)
}

func (r *rig) pulled(topic timeout.Topic) *rig {
	r.t.Helper()
	topic.Name, topic.Pull = "orders", true
	_, err := r.SetTopic(r.t.Context(), topic)
	require.NoError(r.t, err)
	synctest.Wait()
	return r
}

func (r *rig) pull(most int, wait time.Duration) []timeout.Leased {
	r.t.Helper()
	leased, err := r.Pull(r.t.Context(), timeout.Pull{Topic: "orders", Max: most, Wait: wait})
	require.NoError(r.t, err)
	return leased
}

func (r *rig) tell(token timeout.Token, failure error) bool {
	r.t.Helper()
	settled, err := r.Feedback(r.t.Context(), token, failure)
	require.NoError(r.t, err)
	return settled
}

func (r *rig) extend(token timeout.Token, lease time.Duration) time.Duration {
	r.t.Helper()
	left, err := r.Extend(r.t.Context(), token, lease)
	require.NoError(r.t, err)
	return left
}

func TestAPulledTaskComesWhenItIsDueAndIsSettledByItsToken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := pullRig(t, timeout.Topic{Retain: time.Hour, Retries: 1, Backoff: time.Minute, BackoffMax: time.Minute})
		began := time.Now()
		r.set("1", time.Minute)
		leased := r.pull(10, time.Hour)
		require.Len(t, leased, 1)
		late := time.Since(began) - time.Minute
		require.True(t, 0 <= late && late < 50*time.Millisecond, "it is late by %v", late)
		require.Equal(t, r.state("1"), leased[0].Task)
		require.Equal(t, timeout.Running, leased[0].State)
		require.Equal(t, 1, leased[0].Attempts)
		require.Empty(t, r.pull(10, 0), "it is leased")

		pass(10 * time.Second)
		require.True(t, r.tell(leased[0].Token, errors.New("not yet")))
		require.False(t, r.tell(leased[0].Token, nil), "an outcome counts once")
		failed := r.state("1")
		require.Equal(t, timeout.Pending, failed.State)
		require.Equal(t, "not yet", failed.Error)
		require.Greater(t, time.Until(failed.Until), 29*time.Second, "the backoff")
		require.LessOrEqual(t, time.Until(failed.Until), time.Minute)
		log, err := r.Executions(t.Context(), key("1"), 10)
		require.NoError(t, err)
		require.Equal(t, 10*time.Second, log[0].Took)
		require.True(t, began.Add(time.Minute+late).Truncate(time.Millisecond).Equal(log[0].Started))

		again := r.pull(1, time.Hour)
		require.Equal(t, 2, again[0].Attempts)
		require.False(t, time.Now().Before(failed.Until))
		require.True(t, r.tell(again[0].Token, errors.New("no")))
		require.Equal(t, timeout.Dead, r.state("1").State, "no retries are left")

		for id, c := range map[string]struct {
			failure  error
			state    timeout.State
			attempts int
		}{
			"done":     {nil, timeout.Done, 1},
			"dead":     {timeout.Permanent(errors.New("never")), timeout.Dead, 1},
			"later":    {timeout.RetryAfter(errors.New("busy"), time.Hour), timeout.Pending, 1},
			"periodic": {timeout.Again(time.Hour), timeout.Pending, 0},
			"returned": {fmt.Errorf("going down: %w", timeout.ErrStopping), timeout.Pending, 0},
		} {
			r.set(id, 0)
			leased := r.pull(1, time.Minute)
			require.True(t, r.tell(leased[0].Token, c.failure), id)
			task := r.state(id)
			require.Equal(t, c.state, task.State, id)
			require.Equal(t, c.attempts, task.Attempts, id)
			r.Remove(t.Context(), key(id))
		}
		stats := r.stats()
		require.EqualValues(t, 7, stats.Pulled)
		require.Zero(t, stats.Early)
		require.Zero(t, stats.Postponed, "the node has not leased them itself")
		require.Empty(t, stats.Slots)
	})
}

// A worker that dies is silent. Its task runs again when the lease ends, and not before.
func TestThePulledTaskOfADeadWorkerComesAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := pullRig(t, timeout.Topic{Lease: 10 * time.Second})
		r.set("1", 0)
		first := r.pull(1, time.Minute)[0]
		leased := time.Now()
		pass(5 * time.Second)
		require.Equal(t, 10*time.Second, r.extend(first.Token, 0), "the topic's lease, from now")
		second := r.pull(1, time.Minute)[0]
		require.Equal(t, 2, second.Attempts)
		require.True(t, second.Again)
		require.GreaterOrEqual(t, time.Since(leased), 15*time.Second)
		require.Less(t, time.Since(leased), 16*time.Second)

		require.Zero(t, r.extend(first.Token, 0))
		require.False(t, r.tell(first.Token, nil))
		require.Equal(t, timeout.Running, r.state("1").State)
		require.True(t, r.tell(second.Token, nil))
		require.Zero(t, r.extend(second.Token, 0))
	})
}

func TestALeaseFromPullIsLostWithItsTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := pullRig(t, timeout.Topic{})
		for name, end := range map[string]func(){
			"removed":  func() { _, _ = r.Remove(t.Context(), key("1")) },
			"set anew": func() { r.set("1", time.Hour) },
			"dropped": func() {
				require.NoError(t, r.DropTopic(t.Context(), "orders"))
			},
		} {
			_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Pull: true})
			require.NoError(t, err)
			r.set("1", 0)
			token := r.pull(1, time.Minute)[0].Token
			require.Equal(t, time.Second, r.extend(token, time.Second), name)
			end()
			before := r.state("1")
			require.Zero(t, r.extend(token, time.Second), name)
			require.False(t, r.tell(token, errors.New("void")), name)
			require.Equal(t, before, r.state("1"), name)
		}
	})
}

// An extension reaches no further than Topic.Timeout from the lease, like the context of a handler.
func TestExtensionsEndWithTheTimeoutOfTheTopic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		keys := [][]byte{bytes.Repeat([]byte("k"), 32)}
		r := newRig(t, timeout.Config{FeedbackKeys: keys})
		topic := timeout.Topic{Name: "orders", Pull: true, Timeout: time.Minute, Lease: 10 * time.Second}
		_, err := r.SetTopic(t.Context(), topic)
		require.NoError(t, err)
		r.set("1", 0)
		leased, err := r.Pull(t.Context(), timeout.Pull{Topic: "orders", Wait: time.Second, Lease: time.Hour})
		require.NoError(t, err)
		token := leased[0].Token
		left := time.Until(leased[0].Until)
		require.True(t, 59*time.Second < left && left <= time.Minute, "%v", left)
		require.Equal(t, 30*time.Second, r.extend(token, 30*time.Second), "shorter than before")
		pass(20 * time.Second)
		require.Equal(t, 40*time.Second, r.extend(token, time.Hour))
		later := token
		later.Begun += 3_600_000
		_, err = r.Extend(t.Context(), later, time.Hour)
		require.ErrorIs(t, err, timeout.ErrForged, "the begin is signed")
		pass(40*time.Second - 200*time.Millisecond)
		require.Equal(t, 200*time.Millisecond, r.extend(token, time.Hour))
		pass(200 * time.Millisecond)
		require.Zero(t, r.extend(token, time.Hour))
		require.Equal(t, 2, r.pull(1, time.Minute)[0].Attempts)
	})
}

func TestAnAcceptedTaskExtendsItsLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Lease: 10 * time.Second, Timeout: 3 * time.Minute}})
		var calls atomic.Int32
		tokens := make(chan timeout.Token, 10)
		require.NoError(t, r.Handle("orders", func(ctx context.Context, _ timeout.Task) error {
			calls.Add(1)
			token, _ := timeout.TokenOf(ctx)
			tokens <- token
			return timeout.ErrAccepted
		}))
		r.set("1", 0)
		token := <-tokens
		for range 10 {
			pass(8 * time.Second)
			require.Equal(t, 10*time.Second, r.extend(token, 0))
		}
		require.Equal(t, 3*time.Minute, r.extend(token, 2*time.Hour), "no further than Topic.Timeout from now")
		pass(170 * time.Second)
		require.EqualValues(t, 1, calls.Load())
		require.True(t, r.tell(token, nil))
		require.Zero(t, r.extend(token, 0))
	})
}

func TestPullRefusesWhatMakesNoSense(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := pullRig(t, timeout.Topic{})
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "called"})
		require.NoError(t, err)
		for text, c := range map[string]struct {
			pull timeout.Pull
			err  error
		}{
			"Max 101 of a pull, must be 0 to 100":                   {timeout.Pull{Topic: "orders", Max: 101}, timeout.ErrArgument},
			"Max -1 of a pull, must be 0 to 100":                    {timeout.Pull{Topic: "orders", Max: -1}, timeout.ErrArgument},
			"Wait -1s of a pull, must not be negative":              {timeout.Pull{Topic: "orders", Wait: -time.Second}, timeout.ErrArgument},
			"Lease 99ms of topic orders, must be at least 100ms":    {timeout.Pull{Topic: "orders", Lease: 99 * time.Millisecond}, timeout.ErrArgument},
			"Lease -1s of topic orders, must be at least 100ms":     {timeout.Pull{Topic: "orders", Lease: -time.Second}, timeout.ErrArgument},
			"Lease 877000h0m0s of topic orders, must be at most 87": {timeout.Pull{Topic: "orders", Lease: 877000 * time.Hour}, timeout.ErrArgument},
			`topic "!", must be letters`:                            {timeout.Pull{Topic: "!"}, timeout.ErrArgument},
			`topic "nobody"`:                                        {timeout.Pull{Topic: "nobody"}, timeout.ErrNotFound},
			`topic "called" is not pulled`:                          {timeout.Pull{Topic: "called"}, timeout.ErrConflict},
		} {
			_, err := r.Pull(t.Context(), c.pull)
			require.ErrorIs(t, err, c.err)
			require.ErrorContains(t, err, text)
		}
		_, err = r.SetTopic(t.Context(), timeout.Topic{Name: "both", Pull: true, Callback: &timeout.Callback{Kind: "fake", Target: "good"}})
		require.ErrorIs(t, err, timeout.ErrArgument)
		require.ErrorContains(t, err, "Pull of topic both together with a callback of kind fake")
		_, err = r.Extend(t.Context(), timeout.Token{Key: key("1"), Lease: 1}, -1)
		require.ErrorContains(t, err, "Lease -1ns of topic orders, must be at least 100ms")
	})
}

// A hundred idle requests cost as much as one, and none of them misses a task.
func TestIdlePullsShareOneLook(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, err := memory.New(memory.Config{})
		require.NoError(t, err)
		defer store.Close()
		counted := &countingEngine{Engine: store}
		r := rigOn(t, counted, timeout.Config{})
		_, err = r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Pull: true, Lease: time.Hour}) // none ends meanwhile
		require.NoError(t, err)
		var all sync.WaitGroup
		var got atomic.Int32
		for range 100 {
			all.Go(func() { got.Add(int32(len(r.pull(1, time.Minute)))) })
		}
		pass(30 * time.Second)
		require.Less(t, counted.calls.Load(), int32(150), "every Poll, which is 250 ms here")
		var tasks []timeout.Task
		for i := range 60 {
			tasks = append(tasks, timeout.Task{Topic: "orders", ID: fmt.Sprint(i)})
		}
		_, err = r.SetAll(t.Context(), tasks)
		require.NoError(t, err)
		before := counted.calls.Load()
		pass(10 * time.Millisecond)
		require.EqualValues(t, 60, got.Load(), "at once, one each")
		require.LessOrEqual(t, counted.calls.Load()-before, int32(3))
		all.Wait()
		require.EqualValues(t, 60, got.Load())
	})
}

// staleEngine answers Topics late: what it has read is older than what others have made by then.
type staleEngine struct {
	engine.Engine
	read chan struct{} // gets an element after a read
	tell chan struct{} // closed if answers are on time
}

func (e *staleEngine) Topics(ctx context.Context) ([]engine.Topic, error) {
	topics, err := e.Engine.Topics(ctx)
	select {
	case <-e.tell:
	case e.read <- struct{}{}:
		<-e.tell
	}
	return topics, err
}

// Run reads the topics while one is made, and pulled from.
func TestAPullOfATopicMadeJustNowHearsOfTasks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		stale := &staleEngine{Engine: store, read: make(chan struct{}), tell: make(chan struct{})}
		r := rigOn(t, stale, timeout.Config{Poll: time.Hour})
		<-stale.read
		_, err = r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Pull: true})
		require.NoError(t, err)
		got := make(chan int, 1)
		go func() {
			leased, err := r.Pull(r.ctx, timeout.Pull{Topic: "orders", Wait: time.Minute})
			if err != nil {
				t.Error(err)
			}
			got <- len(leased)
		}()
		synctest.Wait()
		close(stale.tell)
		pass(time.Second)
		began := time.Now()
		r.set("1", 0)
		require.Equal(t, 1, <-got)
		require.Less(t, time.Since(began), time.Second, "and nobody waits for the next look")
	})
}

// countingEngine counts the calls of Lease. They wait for gate, if there is one.
type countingEngine struct {
	engine.Engine
	calls atomic.Int32
	gate  chan struct{}
}

func (e *countingEngine) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	e.calls.Add(1)
	batch, err := e.Engine.Lease(ctx, ask)
	if e.gate != nil {
		<-e.gate
	}
	return batch, err
}

// Requests that come while the engine is asked don't take from those that have asked.
func TestEachPullGetsAsManyAsItWantsIfThereAreEnough(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, err := memory.New(memory.Config{})
		require.NoError(t, err)
		defer store.Close()
		gated := &countingEngine{Engine: store, gate: make(chan struct{})}
		c, err := timeout.New(gated, timeout.Config{})
		require.NoError(t, err)
		_, err = c.SetTopic(t.Context(), timeout.Topic{Name: "orders", Pull: true})
		require.NoError(t, err)
		for i := range 100 {
			_, err = c.Set(t.Context(), timeout.Task{Topic: "orders", ID: fmt.Sprint(i)})
			require.NoError(t, err)
		}
		got := make(chan int, 10)
		for range 10 {
			go func() {
				leased, err := c.Pull(t.Context(), timeout.Pull{Topic: "orders", Max: 7, Wait: time.Hour})
				if err != nil {
					t.Error(err)
				}
				got <- len(leased)
			}()
			synctest.Wait()
		}
		close(gated.gate)
		for range 10 {
			require.Equal(t, 7, <-got)
		}
		require.NoError(t, c.Close())
	})
}

// A caller that has gone when the tasks come keeps none of them, and no attempt is counted.
func TestTheTasksOfACallerThatHasGoneAreHandedBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, err := memory.New(memory.Config{})
		require.NoError(t, err)
		defer store.Close()
		gated := &countingEngine{Engine: store, gate: make(chan struct{})}
		c, err := timeout.New(gated, timeout.Config{})
		require.NoError(t, err)
		_, err = c.SetTopic(t.Context(), timeout.Topic{Name: "orders", Pull: true})
		require.NoError(t, err)
		_, err = c.Set(t.Context(), timeout.Task{Topic: "orders", ID: "1"})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := c.Pull(ctx, timeout.Pull{Topic: "orders", Wait: time.Hour})
			ended <- err
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled, "it does not wait for the engine")
		close(gated.gate)
		synctest.Wait()
		tasks, err := store.Get(t.Context(), []timeout.Key{key("1")})
		require.NoError(t, err)
		require.Equal(t, timeout.Pending, tasks[0].State)
		require.Zero(t, tasks[0].Attempts)
		require.NoError(t, c.Close())
	})
}

func TestTasksThatCanNotBeHandedBackComeWhenTheirLeasesEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newShaky(t)
		c, err := timeout.New(store, timeout.Config{})
		require.NoError(t, err)
		_, err = c.SetTopic(t.Context(), timeout.Topic{Name: "orders", Pull: true, Lease: 10 * time.Second})
		require.NoError(t, err)
		_, err = c.Set(t.Context(), timeout.Task{Topic: "orders", ID: "1"})
		require.NoError(t, err)
		began := time.Now()
		store.late.Store(int64(time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err = c.Pull(ctx, timeout.Pull{Topic: "orders", Wait: time.Hour})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		store.down.Store(true)
		pass(time.Second)
		store.down.Store(false)
		store.late.Store(0)
		require.NoError(t, c.Close())
		require.Less(t, time.Since(began), 2*time.Second, "nobody goes on trying")

		other, err := timeout.New(store, timeout.Config{})
		require.NoError(t, err)
		leased, err := other.Pull(t.Context(), timeout.Pull{Topic: "orders", Wait: time.Minute})
		require.NoError(t, err)
		require.Equal(t, 2, leased[0].Attempts)
		require.GreaterOrEqual(t, time.Since(began), 10*time.Second)
		require.NoError(t, other.Close())
	})
}

func TestPullsKeepTheRateAndThePauseOfTheTopic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := pullRig(t, timeout.Topic{Rate: 10})
		for i := range 100 {
			r.set(fmt.Sprint(i), 0)
		}
		began, n := time.Now(), 0
		for time.Since(began) < 5*time.Second {
			n += len(r.pull(100, time.Until(began.Add(5*time.Second))))
		}
		require.InDelta(t, 50, n, 2)
		require.NoError(t, r.Pause(t.Context(), "orders"))
		pass(time.Second)
		require.Empty(t, r.pull(100, time.Minute))
		go func() {
			time.Sleep(time.Minute)
			_ = r.Resume(t.Context(), "orders")
		}()
		began = time.Now()
		require.NotEmpty(t, r.pull(100, time.Hour))
		require.Less(t, time.Since(began), time.Minute+time.Second)
	})
}

func TestWaitingPullsEndWithRunAndWithClose(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := pullRig(t, timeout.Topic{})
		began := time.Now()
		wait := func(c *timeout.Center) chan error {
			ended := make(chan error, 1)
			go func() {
				_, err := c.Pull(t.Context(), timeout.Pull{Topic: "orders", Wait: time.Hour})
				ended <- err
			}()
			synctest.Wait()
			return ended
		}
		withRun := wait(r.Center)
		idle, err := timeout.New(r.engine, timeout.Config{})
		require.NoError(t, err)
		withClose := wait(idle)
		require.NoError(t, idle.Close())
		require.ErrorIs(t, <-withClose, timeout.ErrClosed)
		go func() { _ = r.stop() }()
		require.ErrorIs(t, <-withRun, timeout.ErrStopping)
		require.Less(t, time.Since(began), time.Second)
		_, err = r.Pull(t.Context(), timeout.Pull{Topic: "orders"})
		require.Error(t, err)
	})
}

// Several nodes are asked. Each task goes to one worker, also while nodes run tasks of the topic.
func TestPullsOfSeveralNodesShareTheTasks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := pullRig(t, timeout.Topic{})
		other := rigOn(t, r.engine, timeout.Config{Node: "other"})
		var ran, pulled record
		require.NoError(t, other.Handle("orders", func(_ context.Context, task timeout.Task) error {
			ran.add(task.ID)
			return nil
		}))
		pass(5 * time.Second)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				node := []*rig{r, other}[i%2]
				for began := time.Now(); time.Since(began) < 20*time.Second; {
					for _, one := range node.pull(3, time.Second) {
						pulled.add(one.ID)
						require.True(t, r.tell(one.Token, nil))
					}
				}
			})
		}
		want := make(map[string]bool)
		for i := range 500 {
			id := fmt.Sprint(i)
			r.set(id, time.Duration(i%10)*time.Second)
			want[id] = true
		}
		all.Wait()
		require.NotEmpty(t, pulled.all())
		for _, id := range append(pulled.all(), ran.all()...) {
			require.True(t, want[id], "task %s ran twice", id)
			delete(want, id)
		}
		require.Empty(t, want)
	})
}

func TestAPulledTaskOfAScheduleWaitsForItsNextTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := pullRig(t, timeout.Topic{Every: "1m", Retries: -1})
		r.set("1", 0)
		first := r.pull(1, time.Second)[0]
		require.True(t, r.tell(first.Token, nil))
		task := r.state("1")
		require.Equal(t, timeout.Pending, task.State)
		require.Equal(t, time.Minute, task.Due.Sub(first.Due))
		second := r.pull(1, time.Hour)[0]
		require.True(t, r.tell(second.Token, errors.New("broken")))
		task = r.state("1")
		require.Equal(t, "broken", task.Error)
		require.Equal(t, 2*time.Minute, task.Due.Sub(first.Due), "the run is given up, and the next one comes at its time")
		third := r.pull(1, time.Hour)[0]
		require.True(t, r.tell(third.Token, timeout.ErrStopping))
		require.Equal(t, third.Due, r.pull(1, time.Second)[0].Due, "nobody had begun it")
	})
}

func TestARunOfAPulledTaskWhoseWorkersDieIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{All: true}).pulled(timeout.Topic{Every: "1h", Retries: 1, Lease: time.Second})
		r.set("1", 0)
		first := r.pull(1, time.Minute)[0]
		second := r.pull(1, time.Minute)[0]
		require.Equal(t, 2, second.Attempts)
		require.Equal(t, first.Due, second.Due, "the same run")
		next := r.pull(1, 2*time.Hour)[0]
		require.Equal(t, 1, next.Attempts)
		require.Equal(t, time.Hour, next.Due.Sub(first.Due))
		require.Contains(t, next.Error, "ended in attempt 2")
		require.EqualValues(t, 1, r.stats().Dead)
		require.EqualValues(t, 1, r.stats().GivenUp)
	})
}

func TestARetryThatIsToldToAnotherNodeIsNoFigureOfThat(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := pullRig(t, timeout.Topic{Retries: 1})
		r.set("1", 0)
		other, err := timeout.New(r.engine, timeout.Config{Node: "other"})
		require.NoError(t, err)
		defer func() { require.NoError(t, other.Close()) }()
		for attempt := range 2 {
			require.Empty(t, other.Stats(), attempt)
			leased := r.pull(1, time.Hour)
			require.Len(t, leased, 1)
			settled, err := other.Feedback(t.Context(), leased[0].Token, errors.New("broken"))
			require.NoError(t, err)
			require.True(t, settled)
		}
		require.EqualValues(t, 1, other.Stats()[0].Dead)
	})
}

// The leader purges all topics, also those that it does not serve.
func TestDeadTasksThatArePurgedAreCountedForPulledTopics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := pullRig(t, timeout.Topic{Retries: -1, RetainDead: time.Minute})
		r.set("1", 0)
		require.True(t, r.tell(r.pull(1, time.Minute)[0].Token, errors.New("broken")))
		require.Zero(t, r.stats().Purged)
		pass(5 * time.Minute)
		require.EqualValues(t, 1, r.stats().Dead)
		require.EqualValues(t, 1, r.stats().Purged)
	})
}

func TestACenterWithoutRunKnowsTheTopicAsItIsNow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, err := memory.New(memory.Config{})
		require.NoError(t, err)
		defer store.Close()
		a, err := timeout.New(store, timeout.Config{Node: "a"})
		require.NoError(t, err)
		defer a.Close()
		b, err := timeout.New(store, timeout.Config{Node: "b"})
		require.NoError(t, err)
		defer b.Close()
		_, err = a.SetTopic(t.Context(), timeout.Topic{Name: "orders", Pull: true})
		require.NoError(t, err)
		_, err = b.SetTopic(t.Context(), timeout.Topic{Name: "orders", Pull: true, Every: "1m"})
		require.NoError(t, err)
		_, err = b.Set(t.Context(), timeout.Task{Topic: "orders", ID: "1"})
		require.NoError(t, err)
		leased, err := a.Pull(t.Context(), timeout.Pull{Topic: "orders", Wait: time.Second})
		require.NoError(t, err)
		settled, err := a.Feedback(t.Context(), leased[0].Token, nil)
		require.NoError(t, err)
		require.True(t, settled)
		task, err := b.Get(t.Context(), key("1"))
		require.NoError(t, err)
		require.Equal(t, timeout.Pending, task.State, "it waits for its next run")

		_, err = b.SetTopic(t.Context(), timeout.Topic{Name: "orders"})
		require.NoError(t, err)
		_, err = a.Pull(t.Context(), timeout.Pull{Topic: "orders"})
		require.ErrorIs(t, err, timeout.ErrConflict)
	})
}

func TestAWaitingPullGetsNothingOfATopicThatIsNoLongerPulled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := pullRig(t, timeout.Topic{})
		var leased []timeout.Leased
		var err error
		var pulling sync.WaitGroup
		pulling.Go(func() {
			leased, err = r.Pull(t.Context(), timeout.Pull{Topic: "orders", Wait: time.Hour})
		})
		pass(time.Second)
		_, changing := r.SetTopic(t.Context(), timeout.Topic{Name: "orders"})
		require.NoError(t, changing)
		pass(time.Second)
		r.set("1", time.Second)
		pulling.Wait()
		require.NoError(t, err)
		require.Empty(t, leased)
	})
}
