package timeout_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

// rig is a running center on an engine in memory, in a bubble with a clock of its own.
type rig struct {
	*timeout.Center
	t      *testing.T
	engine engine.Engine
	ctx    context.Context
	stop   func() error
}

// pass lets time pass, and waits for what happens then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func newRig(t *testing.T, cfg timeout.Config) *rig {
	t.Helper()
	engine, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	return rigOn(t, engine, cfg)
}

func rigOn(t *testing.T, e engine.Engine, cfg timeout.Config) *rig {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	center, err := timeout.New(e, cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- center.Run(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		err := <-ran
		require.NoError(t, center.Close())
		return err
	})
	t.Cleanup(func() { _ = stop() })
	return &rig{center, t, e, ctx, stop}
}

func (r *rig) set(id string, after time.Duration) timeout.Answer {
	r.t.Helper()
	answer, err := r.Set(r.t.Context(), timeout.Task{Topic: "orders", ID: id, After: after})
	require.NoError(r.t, err)
	return answer
}

func (r *rig) state(id string) timeout.Task {
	r.t.Helper()
	tasks, err := r.engine.Get(r.t.Context(), []timeout.Key{{Topic: "orders", ID: id}})
	require.NoError(r.t, err)
	return tasks[0]
}

func (r *rig) stats() timeout.Stats {
	for _, s := range r.Stats() {
		if s.Topic == "orders" {
			return s
		}
	}
	return timeout.Stats{}
}

// record has what handlers saw, in order.
type record struct {
	mu  sync.Mutex
	ids []string
}

func (r *record) add(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, id)
}

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ids)
}

func key(id string) timeout.Key { return timeout.Key{Topic: "orders", ID: id} }

func TestATaskRunsOnceAndNotBeforeItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		var ran []time.Time
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			require.Equal(t, "1", task.ID)
			require.Equal(t, 1, task.Attempts)
			ran = append(ran, time.Now())
			return nil
		}))
		start := time.Now()
		r.set("1", 15*time.Minute)
		pass(20 * time.Minute)
		require.Len(t, ran, 1)
		late := ran[0].Sub(start) - 15*time.Minute
		require.GreaterOrEqual(t, late, time.Duration(0))
		require.Less(t, late, 300*time.Millisecond)
		require.Equal(t, timeout.None, r.state("1").State)
		s := r.stats()
		require.EqualValues(t, 1, s.Done)
		require.Zero(t, s.Early)
		require.EqualValues(t, 1, s.Late.Count)
	})
}

func TestWhatIsMovedRunsThenAndWhatIsRemovedNever(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		ran := new(record)
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			ran.add(task.ID)
			return nil
		}))
		r.set("moved", time.Minute)
		r.set("removed", time.Minute)
		answer, err := r.MoveAfter(t.Context(), key("moved"), time.Hour)
		require.NoError(t, err)
		require.Equal(t, timeout.Pending, answer.Was)
		answer, err = r.Remove(t.Context(), key("removed"))
		require.NoError(t, err)
		require.Equal(t, timeout.Pending, answer.Was)
		pass(59 * time.Minute)
		require.Empty(t, ran.all())
		pass(2 * time.Minute)
		require.Equal(t, []string{"moved"}, ran.all())
		answer, err = r.Move(t.Context(), key("moved"), time.Now())
		require.NoError(t, err)
		require.Equal(t, timeout.None, answer.Was)
	})
}

func TestWhatFailsIsTriedAgainWithLongerWaitsAndIsDeadThen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Retries: 3, Backoff: time.Second, BackoffMax: 3 * time.Second}})
		var ran []time.Time
		failing := true
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			ran = append(ran, time.Now())
			require.Contains(t, []int{1, 2, 3, 4}, task.Attempts)
			if failing {
				return fmt.Errorf("attempt %d", task.Attempts)
			}
			return nil
		}))
		r.set("1", 0)
		pass(time.Minute)
		require.Len(t, ran, 4)
		for i, want := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
			wait := ran[i+1].Sub(ran[i])
			require.GreaterOrEqual(t, wait, want/2)
			require.Less(t, wait, want+300*time.Millisecond)
		}
		dead := r.state("1")
		require.Equal(t, timeout.Dead, dead.State)
		require.Equal(t, "attempt 4", dead.Error)
		require.EqualValues(t, 4, r.stats().Failed)
		require.EqualValues(t, 1, r.stats().Dead)

		failing = false
		answers, err := r.Replay(t.Context(), []timeout.Key{key("1")})
		require.NoError(t, err)
		require.Equal(t, timeout.Dead, answers[0].Was)
		pass(time.Second)
		require.Len(t, ran, 5)
		require.Equal(t, timeout.None, r.state("1").State)
	})
}

func TestAnErrorSaysWhatIsNext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		attempts := map[string][]time.Time{}
		var mu sync.Mutex
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			mu.Lock()
			defer mu.Unlock()
			attempts[task.ID] = append(attempts[task.ID], time.Now())
			if task.Attempts > 1 {
				return nil
			}
			switch task.ID {
			case "permanent":
				return timeout.Permanent(errors.New("gone"))
			case "later":
				return timeout.RetryAfter(errors.New("busy"), time.Hour)
			case "panics":
				panic("oh")
			}
			return nil
		}))
		for _, id := range []string{"permanent", "later", "panics"} {
			r.set(id, 0)
		}
		pass(2 * time.Hour)
		require.Len(t, attempts["permanent"], 1)
		require.Equal(t, timeout.Dead, r.state("permanent").State)
		require.Len(t, attempts["later"], 2)
		require.GreaterOrEqual(t, attempts["later"][1].Sub(attempts["later"][0]), time.Hour)
		require.Len(t, attempts["panics"], 2)
	})
}

func TestAgainRunsATaskAsIfItWereSetAnew(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Retries: 1, Backoff: time.Second})
		require.NoError(t, err)
		var ran []time.Time
		var seen []timeout.Task
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			ran, seen = append(ran, time.Now()), append(seen, task)
			switch {
			case len(ran)%3 == 1:
				return errors.New("busy")
			case len(ran) < 30:
				return fmt.Errorf("wrapped: %w", timeout.Again(time.Minute))
			}
			return nil
		}))
		version := r.set("1", time.Minute).Version
		pass(time.Minute + 10*time.Second)
		require.Len(t, seen, 2)
		waiting := r.state("1")
		require.Equal(t, timeout.Pending, waiting.State)
		require.Empty(t, waiting.Error)
		require.Zero(t, waiting.Attempts)
		pass(20 * time.Minute)
		require.Len(t, ran, 30, "twenty runs, half of them with a failure, none dead of all failures")
		for i, task := range seen {
			require.Equal(t, version, task.Version)
			switch i % 3 {
			case 0, 2:
				require.Equal(t, 1, task.Attempts)
				require.Empty(t, task.Error)
				require.Less(t, ran[i].Sub(task.Due), 300*time.Millisecond, "Due is that of this run")
				if i > 0 {
					wait := ran[i].Sub(ran[i-1])
					require.GreaterOrEqual(t, wait, time.Minute, "no backoff, and nothing is early")
					require.Less(t, wait, time.Minute+300*time.Millisecond)
				}
			default:
				require.Equal(t, 2, task.Attempts)
				require.Equal(t, "busy", task.Error)
			}
		}
		s := r.stats()
		require.EqualValues(t, 20, s.Done)
		require.EqualValues(t, 10, s.Failed)
		require.Zero(t, s.Dead)
		require.Zero(t, s.Early)
		require.EqualValues(t, 20, s.Late.Count, "of each run")
		require.Equal(t, timeout.None, r.state("1").State)
	})
}

func TestAgainAtOnceDoesNotUseUpTheRetries(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		runs := 0
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
			if runs++; runs < 200 {
				return timeout.Again(0)
			}
			return nil
		}))
		r.set("1", 0)
		pass(2 * time.Minute)
		require.Equal(t, 200, runs)
		require.EqualValues(t, 200, r.stats().Done)
		require.Zero(t, r.stats().Failed)
	})
}

func TestAgainWithADelayOutOfRangeIsAFailure(t *testing.T) {
	for _, d := range []time.Duration{-1, engine.MaxDuration + 1} {
		err := timeout.Again(d)
		require.ErrorIs(t, err, timeout.ErrArgument)
		require.ErrorContains(t, err, fmt.Sprint(d))
		require.ErrorContains(t, err, fmt.Sprint(engine.MaxDuration))
	}
	require.NotErrorIs(t, timeout.Again(engine.MaxDuration), timeout.ErrArgument)
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			if task.Attempts == 1 {
				return timeout.Again(-time.Second)
			}
			require.Contains(t, task.Error, "-1s")
			return timeout.Permanent(timeout.Again(time.Second))
		}))
		r.set("1", 0)
		pass(2 * time.Minute)
		require.EqualValues(t, 2, r.stats().Failed)
		require.Equal(t, timeout.Dead, r.state("1").State, "Permanent goes before Again")
	})
}

func TestATaskSetOrRemovedWhileItRunsHasNoNewRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		begun, free := make(chan string, 2), make(chan struct{})
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			begun <- task.ID
			<-free
			return timeout.Again(time.Minute)
		}))
		r.set("set", 0)
		r.set("removed", 0)
		<-begun
		<-begun
		set := r.set("set", 10*time.Hour)
		_, err := r.Remove(t.Context(), key("removed"))
		require.NoError(t, err)
		close(free)
		pass(2 * time.Minute)
		require.Equal(t, set.Version, r.state("set").Version)
		require.Equal(t, set.Due, r.state("set").Due)
		require.Equal(t, timeout.None, r.state("removed").State)
		require.Empty(t, begun)
		require.EqualValues(t, 2, r.stats().Lost)
	})
}

func TestFeedbackCanBeginANewRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		tokens := make(chan timeout.Token, 2)
		require.NoError(t, r.Handle("orders", func(ctx context.Context, task timeout.Task) error {
			require.Equal(t, 1, task.Attempts)
			token, _ := timeout.TokenOf(ctx)
			tokens <- token
			return timeout.ErrAccepted
		}))
		r.set("1", 0)
		settled, err := r.Feedback(t.Context(), <-tokens, timeout.Again(10*time.Second))
		require.NoError(t, err)
		require.True(t, settled)
		began := time.Now()
		<-tokens
		require.Less(t, time.Since(began), 11*time.Second)
		require.GreaterOrEqual(t, time.Since(began), 10*time.Second)
	})
}

func TestSettingATaskThatRunsEndsItsContextAndRunsTheNewOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Lease: 3 * time.Second}})
		var causes []error
		var versions []int64
		require.NoError(t, r.Handle("orders", func(ctx context.Context, task timeout.Task) error {
			versions = append(versions, task.Version)
			if len(versions) == 1 {
				<-ctx.Done()
				causes = append(causes, context.Cause(ctx))
			}
			return nil
		}))
		first := r.set("1", 0)
		pass(time.Second)
		second := r.set("1", 10*time.Second)
		require.Equal(t, timeout.Running, second.Was)
		require.Greater(t, second.Version, first.Version)
		pass(4 * time.Second)
		require.Equal(t, []error{timeout.ErrLeaseLost}, causes)
		require.Equal(t, timeout.Pending, r.state("1").State, "what the first one returned is not looked at")
		pass(10 * time.Second)
		require.Equal(t, []int64{first.Version, second.Version}, versions)
	})
}

func TestALongHandlerKeepsItsLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Lease: 3 * time.Second}})
		runs := 0
		require.NoError(t, r.Handle("orders", func(ctx context.Context, _ timeout.Task) error {
			runs++
			select {
			case <-time.After(time.Minute):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}))
		r.set("1", 0)
		pass(2 * time.Minute)
		require.Equal(t, 1, runs)
		require.EqualValues(t, 1, r.stats().Done)
	})
}

func TestHandlersThatHangHoldUpNobodyForEver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Concurrency: 2, Lease: time.Second, Timeout: 5 * time.Second, Retries: -1}})
		release := make(chan struct{})
		defer close(release)
		var ran atomic.Int64
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			if task.ID < "c" {
				<-release // whatever the context says
			}
			ran.Add(1)
			return nil
		}))
		for _, id := range []string{"a", "b"} {
			r.set(id, 0)
		}
		pass(100 * time.Millisecond)
		for _, id := range []string{"c", "d", "e"} {
			r.set(id, 0)
		}
		pass(time.Second)
		require.Zero(t, ran.Load())
		pass(10 * time.Second)
		require.EqualValues(t, 3, ran.Load())
		require.EqualValues(t, 2, r.stats().Abandoned)
		require.Equal(t, timeout.Dead, r.state("a").State)
		require.Contains(t, r.state("a").Error, "too long")
	})
}

func TestStoppingHandsBackWhatWasNotBegun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Concurrency: 1, Slots: 1}, Grace: 5 * time.Second})
		var ran []string
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			ran = append(ran, task.ID)
			time.Sleep(3 * time.Second)
			return nil
		}))
		pass(time.Second)
		var tasks []timeout.Task
		for i := range 10 {
			tasks = append(tasks, timeout.Task{Topic: "orders", ID: fmt.Sprint(i), After: time.Duration(i) * time.Millisecond})
		}
		_, err := r.SetAll(t.Context(), tasks)
		require.NoError(t, err)
		pass(7 * time.Second) // the third runs
		require.NoError(t, r.stop())
		require.Len(t, ran, 3)
		counts, err := r.engine.Count(t.Context(), "orders")
		require.NoError(t, err)
		require.EqualValues(t, 7, counts.Pending)
		require.Zero(t, counts.Running)
		for _, id := range []string{"3", "9"} {
			require.Zero(t, r.state(id).Attempts, id)
		}
	})
}

func TestStoppingCancelsHandlersAfterItsGrace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Grace: 2 * time.Second})
		var cause error
		require.NoError(t, r.Handle("orders", func(ctx context.Context, _ timeout.Task) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return cause
		}))
		r.set("1", 0)
		pass(time.Second)
		require.NoError(t, r.stop())
		require.ErrorIs(t, cause, timeout.ErrStopping)
		require.Equal(t, timeout.Pending, r.state("1").State)
		require.Zero(t, r.state("1").Attempts, "it is nobody's fault")
	})
}

func TestRunSaysHowManyHandlersOutliveIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Grace: -1})
		release := make(chan struct{})
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
			<-release
			return nil
		}))
		r.set("1", 0)
		pass(time.Second)
		require.ErrorContains(t, r.stop(), "1 handlers still run")
		close(release)
	})
}

func TestAPausedTopicTakesTasksAndRunsNone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		runs := 0
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { runs++; return nil }))
		pass(time.Second)
		require.NoError(t, r.Pause(t.Context(), "orders"))
		r.set("1", 0)
		pass(time.Minute)
		require.Zero(t, runs)
		require.NoError(t, r.Resume(t.Context(), "orders"))
		pass(time.Second)
		require.Equal(t, 1, runs)
		require.ErrorIs(t, r.Pause(t.Context(), "nothing"), timeout.ErrNotFound)
	})
}

func TestNoMoreThanConcurrencyRunAndNoMoreThanRateBegin(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Concurrency: 3, Rate: 50}})
		var running, most, runs int
		var mu sync.Mutex
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
			mu.Lock()
			running++
			runs++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}))
		var tasks []timeout.Task
		for i := range 1000 {
			tasks = append(tasks, timeout.Task{Topic: "orders", ID: fmt.Sprint(i)})
		}
		_, err := r.SetAll(t.Context(), tasks)
		require.NoError(t, err)
		pass(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.LessOrEqual(t, most, 3)
		require.InDelta(t, 500, runs, 25)
	})
}

// Handlers that hang for a while, as with a target that is away, save up no tasks for the moment after it.
func TestARateHoldsWhenAllHandlersEndAtOnce(t *testing.T) {
	for name, topic := range map[string]timeout.Topic{
		"of a node": {Rate: 10}, "of all nodes": {GlobalRate: 10}, "of many tasks": {Rate: 100, Concurrency: 20},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, timeout.Config{Topic: topic})
				hang := make(chan struct{})
				var begun atomic.Int64
				require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
					begun.Add(1)
					<-hang
					return nil
				}))
				var tasks []timeout.Task
				for i := range 2000 {
					tasks = append(tasks, timeout.Task{Topic: "orders", ID: fmt.Sprint(i)})
				}
				_, err := r.SetAll(t.Context(), tasks)
				require.NoError(t, err)
				pass(20 * time.Second)
				perSecond, before := max(topic.Rate, topic.GlobalRate), begun.Load()
				require.EqualValues(t, cmp.Or(topic.Concurrency, engine.DefaultConcurrency), before)
				close(hang)
				pass(time.Second)
				burst := perSecond / 10 // waits for places, and as much may begin at once
				require.LessOrEqual(t, float64(begun.Load()-before), perSecond+2*burst)
				pass(9 * time.Second)
				require.InDelta(t, 10*perSecond, begun.Load()-before, 2*burst)
			})
		})
	}
}

func TestSeveralNodesShareTheWorkAndTakeOverFromOneThatIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		engine, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = engine.Close() })
		var mu sync.Mutex
		ran := map[string][]string{}
		node := func(name string) *rig {
			r := rigOn(t, engine, timeout.Config{Node: name})
			require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
				mu.Lock()
				defer mu.Unlock()
				ran[name] = append(ran[name], task.ID)
				return nil
			}))
			return r
		}
		a, b := node("a"), node("b")
		pass(10 * time.Second)
		require.Len(t, a.View().Nodes, 2)
		require.Len(t, a.stats().Slots, 4)
		require.Len(t, b.stats().Slots, 4)
		for i := range 100 {
			a.set(fmt.Sprint(i), time.Second)
		}
		pass(5 * time.Second)
		require.Len(t, slices.Concat(ran["a"], ran["b"]), 100)
		require.NotEmpty(t, ran["a"])
		require.NotEmpty(t, ran["b"])

		require.NoError(t, a.stop())
		pass(10 * time.Second)
		require.Len(t, b.stats().Slots, 8)
		before := len(ran["b"])
		for i := range 100 {
			b.set(fmt.Sprint(i), time.Second)
		}
		pass(5 * time.Second)
		require.Len(t, ran["b"], before+100)
	})
}

func TestFeedbackSettlesWhatWasAccepted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Lease: 2 * time.Second, Timeout: time.Minute, Backoff: time.Second}})
		var tokens []timeout.Token
		require.NoError(t, r.Handle("orders", func(ctx context.Context, _ timeout.Task) error {
			token, ok := timeout.TokenOf(ctx)
			require.True(t, ok)
			tokens = append(tokens, token)
			return timeout.ErrAccepted
		}))
		r.set("1", 0)
		pass(30 * time.Second)
		require.Len(t, tokens, 1, "the lease is as long as the timeout")
		require.Equal(t, timeout.Running, r.state("1").State)

		settled, err := r.Feedback(t.Context(), tokens[0], errors.New("not yet"))
		require.NoError(t, err)
		require.True(t, settled)
		pass(5 * time.Second)
		require.Len(t, tokens, 2)
		settled, err = r.Feedback(t.Context(), tokens[0], nil)
		require.NoError(t, err)
		require.False(t, settled, "that was another lease")
		settled, err = r.Feedback(t.Context(), tokens[1], nil)
		require.NoError(t, err)
		require.True(t, settled)
		require.Equal(t, timeout.None, r.state("1").State)

		r.set("2", 0)
		pass(3 * time.Minute)
		require.Greater(t, len(tokens), 3, "without feedback it runs again")
	})
}

// An accepted task has as long as a handler: an hour, unless its topic says otherwise.
func TestAnAcceptedTaskHasTheTimeoutOfItsTopic(t *testing.T) {
	for want, topic := range map[time.Duration]timeout.Topic{
		time.Hour:       {},
		time.Minute:     {Timeout: time.Minute},
		2 * time.Minute: {Lease: 2 * time.Minute, Timeout: time.Minute},
		3 * time.Minute: {Lease: 3 * time.Minute, Timeout: -1},
	} {
		inBubble(t, func(t *testing.T) {
			r := newRig(t, timeout.Config{Topic: topic})
			var calls atomic.Int64
			require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
				calls.Add(1)
				return timeout.ErrAccepted
			}))
			r.set("1", 0)
			pass(want - time.Second)
			require.EqualValues(t, 1, calls.Load(), want)
			pass(10 * time.Second)
			require.EqualValues(t, 2, calls.Load(), want)
		})
	}
}

// What runs has leases of the length of before, until they are extended.
func TestALongerLeaseOfATopicLosesNoneOfThePresentOnes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Lease: 300 * time.Millisecond}})
		var calls atomic.Int64
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
			calls.Add(1)
			time.Sleep(5 * time.Second)
			return nil
		}))
		for i := range 20 {
			r.set(fmt.Sprint(i), time.Duration(i)*100*time.Millisecond)
		}
		pass(time.Second)
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Lease: time.Hour})
		require.NoError(t, err)
		pass(time.Minute)
		require.EqualValues(t, 20, calls.Load())
		require.Zero(t, r.stats().Lost)
	})
}

// The node looks each second whether leases of half a minute are to be extended.
func TestAShorterLeaseOfATopicLosesNoneOfTheNextOnes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		var calls atomic.Int64
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
			calls.Add(1)
			time.Sleep(20 * time.Second)
			return nil
		}))
		for i := range 20 {
			r.set(fmt.Sprint(i), time.Duration(i)*330*time.Millisecond)
		}
		pass(2 * time.Second)
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Lease: 100 * time.Millisecond})
		require.NoError(t, err)
		pass(time.Minute)
		require.EqualValues(t, 20, calls.Load())
		require.Zero(t, r.stats().Lost)
	})
}

// extending extends leases as extend says. The first extension is known when it is asked for.
type extending struct {
	engine.Engine
	asked  chan struct{} // closed then
	calls  atomic.Int64
	extend func(call int64, do func() ([]bool, error)) ([]bool, error)
}

func (e *extending) Extend(ctx context.Context, tokens []timeout.Token, lease time.Duration) ([]bool, error) {
	call := e.calls.Add(1)
	if call == 1 {
		close(e.asked)
	}
	return e.extend(call, func() ([]bool, error) { return e.Engine.Extend(ctx, tokens, lease) })
}

func rigExtending(t *testing.T, extend func(call int64, do func() ([]bool, error)) ([]bool, error)) (r *rig, asked <-chan struct{}) {
	kept, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = kept.Close() })
	e := &extending{Engine: kept, asked: make(chan struct{}), extend: extend}
	return rigOn(t, e, timeout.Config{}), e.asked
}

// A handler can accept while its node extends the lease. Then the engine can do the extension for the acceptance
// first, and either answer may come first.
func TestAnExtensionOnItsWayDoesNotShortenTheLeaseOfAnAcceptedTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		accepted := make(chan struct{})
		for name, extend := range map[string]func(call int64, do func() ([]bool, error)) ([]bool, error){
			"late": func(call int64, do func() ([]bool, error)) ([]bool, error) {
				if call == 1 {
					time.Sleep(time.Second)
				}
				return do()
			},
			"crossing": func(call int64, do func() ([]bool, error)) ([]bool, error) {
				switch call {
				case 1:
					<-accepted
				case 2:
					defer time.Sleep(100 * time.Millisecond)
					defer close(accepted)
				}
				return do()
			},
		} {
			r, asked := rigExtending(t, extend)
			var calls atomic.Int64
			require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
				calls.Add(1)
				<-asked
				return timeout.ErrAccepted
			}))
			r.set("1", 0)
			pass(30 * time.Minute)
			require.EqualValues(t, 1, calls.Load(), name)
			require.Equal(t, timeout.Running, r.state("1").State, name)
			require.EqualValues(t, 1, r.stats().Accepted, name)
		}
	})
}

// belated answers with leases when nearly all of their time is over.
type belated struct{ engine.Engine }

func (e *belated) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	batch, err := e.Engine.Lease(ctx, ask)
	if len(batch.Leased) > 0 {
		time.Sleep(ask.Lease * 9 / 10)
	}
	return batch, err
}

func TestALeaseThatCameLateIsExtendedInTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		kept, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = kept.Close() })
		r := rigOn(t, &belated{Engine: kept}, timeout.Config{})
		var calls atomic.Int64
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
			calls.Add(1)
			time.Sleep(5 * time.Minute)
			return nil
		}))
		r.set("1", 0)
		pass(15 * time.Minute)
		require.EqualValues(t, 1, calls.Load())
		require.Equal(t, timeout.None, r.state("1").State)
		require.Zero(t, r.stats().Lost)
	})
}

// failing fails every call of Lease with outcomes, after it has settled them.
type failing struct {
	engine.Engine
}

func (e failing) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	batch, err := e.Engine.Lease(ctx, ask)
	if err == nil && len(ask.Settle) > 0 {
		err = errors.New("the answer is lost")
	}
	return batch, err
}

// A worker with a backlog hands more back than one call settles.
func TestTheLastOutcomesAreAllTriedThoughACallFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		kept, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = kept.Close() })
		r := rigOn(t, failing{kept}, timeout.Config{})
		_, err = r.SetTopic(r.ctx, timeout.Topic{Name: "orders", Concurrency: 3000, Lease: time.Hour})
		require.NoError(t, err)
		require.NoError(t, r.Handle("orders", func(ctx context.Context, _ timeout.Task) error {
			<-ctx.Done()
			return nil
		}))
		for i := range 3000 {
			r.set(fmt.Sprint(i), 0)
		}
		pass(time.Minute)
		count := func() int64 {
			counts, err := kept.Count(t.Context(), "orders")
			require.NoError(t, err)
			return counts.Running
		}
		require.EqualValues(t, 3000, count())
		require.NoError(t, r.stop())
		require.Zero(t, count())
	})
}

// Forty acceptances during an extension are not forty calls before the next extension.
func TestManyAcceptedKeepNoOtherLeaseFromBeingExtended(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, asked := rigExtending(t, func(call int64, do func() ([]bool, error)) ([]bool, error) {
			if call == 1 {
				time.Sleep(2 * time.Second)
			}
			time.Sleep(time.Second)
			return do()
		})
		var calls atomic.Int64
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			if task.ID == "long" {
				calls.Add(1)
				time.Sleep(3 * time.Minute)
				return nil
			}
			<-asked
			return timeout.ErrAccepted
		}))
		r.set("long", 0)
		for i := range 40 {
			r.set(fmt.Sprint(i), 0)
		}
		pass(5 * time.Minute)
		require.EqualValues(t, 1, calls.Load())
		require.Zero(t, r.stats().Lost)
	})
}

// With keys, a token is good for its own lease, on each node with one of the keys, and nobody can make
// another one of it.
func TestFeedbackTakesNoForgedToken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		old, key, foreign := bytes.Repeat([]byte("o"), 32), bytes.Repeat([]byte("k"), 32), bytes.Repeat([]byte("f"), 32)
		r := newRig(t, timeout.Config{FeedbackKeys: [][]byte{old}, Topic: timeout.Topic{Timeout: time.Minute}})
		var token timeout.Token
		require.NoError(t, r.Handle("orders", func(ctx context.Context, _ timeout.Task) error {
			token, _ = timeout.TokenOf(ctx)
			return timeout.ErrAccepted
		}))
		r.set("1", 0)
		pass(time.Second)
		require.Len(t, token.Proof, 32)
		told, err := timeout.ParseToken(token.String())
		require.NoError(t, err)
		require.Equal(t, token, told)

		another := func(keys ...[]byte) *timeout.Center {
			c, err := timeout.New(r.engine, timeout.Config{FeedbackKeys: keys})
			require.NoError(t, err)
			return c
		}
		with := func(change func(*timeout.Token)) timeout.Token {
			forged := token
			change(&forged)
			return forged
		}
		for name, forged := range map[string]timeout.Token{
			"no proof":        with(func(t *timeout.Token) { t.Proof = "" }),
			"half a proof":    with(func(t *timeout.Token) { t.Proof = t.Proof[:16] }),
			"another id":      with(func(t *timeout.Token) { t.ID = "2" }),
			"another topic":   with(func(t *timeout.Token) { t.Topic = "mail" }),
			"the next lease":  with(func(t *timeout.Token) { t.Lease++ }),
			"another part":    with(func(t *timeout.Token) { t.Part += "0" }),
			"parts shifted":   with(func(t *timeout.Token) { t.Topic, t.Part = t.Topic+"\n"+t.Part, "" }),
			"somebody's else": with(func(t *timeout.Token) { *t = tokenBy(foreign, *t) }),
		} {
			settled, err := r.Feedback(t.Context(), forged, nil)
			require.Error(t, err, name)
			require.False(t, settled, name)
			if name != "parts shifted" { // which is no key
				require.ErrorIs(t, err, timeout.ErrForged, name)
			}
		}
		_, err = another(key).Feedback(t.Context(), token, nil)
		require.ErrorIs(t, err, timeout.ErrForged, "a node with another key")
		require.Equal(t, timeout.Running, r.state("1").State)
		settled, err := another(key, old).Feedback(t.Context(), token, nil)
		require.NoError(t, err)
		require.True(t, settled, "a node where the key is being changed")

		_, err = timeout.New(r.engine, timeout.Config{FeedbackKeys: [][]byte{key, key[:31]}})
		require.ErrorIs(t, err, timeout.ErrArgument)
		require.ErrorContains(t, err, "FeedbackKeys[1] has 31 bytes, must have at least 32")
	})
}

// tokenBy signs a token as somebody with another key would.
func tokenBy(key []byte, token timeout.Token) timeout.Token {
	token.Proof = ""
	hash := hmac.New(sha256.New, key)
	hash.Write([]byte(token.String()))
	token.Proof = string(hash.Sum(nil))
	return token
}

// Nor does it make the topic anew, be it dropped here or by another node.
func TestFeedbackForADroppedTopicSettlesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, here := range []bool{true, false} {
			r := newRig(t, timeout.Config{})
			r.set("1", 0)
			batch, err := r.engine.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "n", Max: 1, Lease: time.Hour})
			require.NoError(t, err)
			require.Len(t, batch.Leased, 1)
			if here {
				require.NoError(t, r.DropTopic(t.Context(), "orders"))
			} else {
				require.NoError(t, r.engine.DropTopic(t.Context(), "orders"))
			}
			settled, err := r.Feedback(t.Context(), batch.Leased[0].Token, nil)
			require.NoError(t, err)
			require.False(t, settled)
			topics, err := r.Topics(t.Context())
			require.NoError(t, err)
			require.Empty(t, topics)
			require.NoError(t, r.stop())
		}
	})
}

func TestGetAllTellsWhatIsNotThere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		_, err := r.Set(t.Context(), timeout.Task{Topic: "t", ID: "a", After: time.Hour})
		require.NoError(t, err)
		tasks, err := r.GetAll(t.Context(), []timeout.Key{{Topic: "t", ID: "b"}, {Topic: "t", ID: "a"}})
		require.NoError(t, err)
		require.Equal(t, timeout.None, tasks[0].State)
		require.Equal(t, timeout.Pending, tasks[1].State)
		_, err = r.GetAll(t.Context(), []timeout.Key{{Topic: "t", ID: "a"}, {Topic: "", ID: "a"}})
		require.ErrorIs(t, err, timeout.ErrArgument)
	})
}

// A task there could pass for the marker of a shard, and no program would open the engine again.
func TestTheTopicOfMarksIsReserved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		const want = "timeout: invalid argument: topic heartwheel.sharded is reserved for the markers of shards"
		_, err := r.Set(t.Context(), timeout.Task{Topic: engine.Reserved, ID: "place", After: time.Hour})
		require.EqualError(t, err, want)
		_, err = r.SetAll(t.Context(), []timeout.Task{{Topic: engine.Reserved, ID: "place", After: time.Hour}})
		require.ErrorContains(t, err, want)
		_, err = r.SetTopic(t.Context(), timeout.Topic{Name: engine.Reserved})
		require.EqualError(t, err, want)
		require.EqualError(t, r.Handle(engine.Reserved, func(context.Context, timeout.Task) error { return nil }), want)
		topics, err := r.Topics(t.Context())
		require.NoError(t, err)
		require.Empty(t, topics)
	})
}
