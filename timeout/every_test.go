package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// runs notes when a handler was called, since a start, and for which action time.
type runs struct {
	start time.Time
	mu    sync.Mutex
	n     int
	at    []time.Duration
	due   []time.Duration
	tasks []timeout.Task
}

func (r *runs) add(task timeout.Task) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = append(r.at, time.Since(r.start))
	r.due = append(r.due, task.Due.Sub(r.start))
	r.tasks = append(r.tasks, task)
	r.n++
	return r.n
}

// take returns the action times of the runs since the last call. None of them was early, or later
// than late.
func (r *runs) take(t *testing.T, late time.Duration) []time.Duration {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.at {
		require.GreaterOrEqual(t, r.at[i], r.due[i])
		require.LessOrEqual(t, r.at[i], r.due[i]+late)
	}
	due := r.due
	r.at, r.due, r.tasks = nil, nil, nil
	return due
}

// periodic is a running center with a topic that has a schedule.
func periodic(t *testing.T, topic timeout.Topic, handler func(n int, task timeout.Task) error) (*rig, *runs) {
	t.Helper()
	r := newRig(t, timeout.Config{})
	topic.Name = "orders"
	_, err := r.SetTopic(t.Context(), topic)
	require.NoError(t, err)
	ran := &runs{start: time.Now()}
	require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
		return handler(ran.add(task), task)
	}))
	return r, ran
}

func seconds(of ...int) (all []time.Duration) {
	for _, n := range of {
		all = append(all, time.Duration(n)*time.Second)
	}
	return all
}

func TestAPeriodicTaskRunsAtItsTimesHoweverLongARunTakes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, ran := periodic(t, timeout.Topic{Every: "10s"}, func(n int, task timeout.Task) error {
			require.Equal(t, 1, task.Attempts)
			require.Empty(t, task.Error)
			switch n {
			case 2:
				time.Sleep(9 * time.Second)
			case 4:
				time.Sleep(25 * time.Second) // the runs at 43 and 53 seconds are skipped
			}
			return nil
		})
		version := r.set("1", 3*time.Second).Version
		pass(80 * time.Second)
		require.Equal(t, seconds(3, 13, 23, 33, 63, 73), ran.take(t, 300*time.Millisecond))
		require.Equal(t, version, r.state("1").Version)
		s := r.stats()
		require.EqualValues(t, 6, s.Done)
		require.Zero(t, s.Failed+s.Dead+s.Early)
	})
}

// The bubble's clock begins at midnight of the 1st of January 2000, UTC.
func TestACronExpressionCountsInItsZone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, ran := periodic(t, timeout.Topic{Every: "CRON_TZ=Asia/Tokyo 1,3 9 * * *"}, func(int, timeout.Task) error { return nil })
		ran.start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		_, err := r.Set(t.Context(), timeout.Task{Topic: "orders", ID: "1", Due: ran.start.Add(10 * time.Second)})
		require.NoError(t, err)
		pass(4 * time.Minute)
		require.Equal(t, seconds(10, 60, 180), ran.take(t, 300*time.Millisecond))
		require.Equal(t, ran.start.Add(24*time.Hour+time.Minute), r.state("1").Due.UTC())
	})
}

func TestARunThatFailsForTheLastTimeIsCountedAndTheNextComesAtItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, ran := periodic(t, timeout.Topic{Every: "10s", Retries: 2, Backoff: time.Second, Retain: time.Hour}, func(n int, _ timeout.Task) error {
			if n <= 4 {
				return fmt.Errorf("failure %d", n)
			}
			return nil
		})
		r.set("1", time.Second)
		pass(5 * time.Second)
		require.Len(t, ran.at, 3)
		waiting := r.state("1")
		require.Equal(t, timeout.Pending, waiting.State)
		require.Equal(t, "failure 3", waiting.Error)
		require.Zero(t, waiting.Attempts)
		require.WithinDuration(t, ran.start.Add(11*time.Second), waiting.Due, time.Millisecond)
		require.EqualValues(t, 1, r.stats().Dead)
		require.EqualValues(t, 1, r.stats().GivenUp)
		require.EqualValues(t, 3, r.stats().Failed)

		pass(10 * time.Second)
		require.Len(t, ran.tasks, 5)
		require.Equal(t, "failure 3", ran.tasks[3].Error)
		require.Equal(t, 1, ran.tasks[3].Attempts)
		require.Equal(t, 2, ran.tasks[4].Attempts)
		require.Empty(t, r.state("1").Error)
		require.EqualValues(t, 1, r.stats().Dead)
		require.EqualValues(t, 1, r.stats().Done)
		log, err := r.engine.(engine.Log).Executions(t.Context(), key("1"), 10)
		require.NoError(t, err)
		var as []timeout.State
		for _, execution := range log {
			as = append(as, execution.As)
		}
		require.Equal(t, []timeout.State{timeout.Done, timeout.Pending, timeout.Dead, timeout.Pending, timeout.Pending}, as)
	})
}

func TestARetryThatWouldComeAfterTheNextRunIsLeftToIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, ran := periodic(t, timeout.Topic{Every: "10s", Backoff: 8 * time.Second}, func(n int, _ timeout.Task) error {
			if n == 1 {
				return timeout.RetryAfter(errors.New("ask again later"), time.Second)
			}
			return errors.New("broken")
		})
		r.set("1", 0)
		pass(61 * time.Second)
		require.EqualValues(t, 6, r.stats().Dead, "the run at 60 seconds goes on")
		require.Equal(t, timeout.Pending, r.state("1").State)
		seen := map[time.Duration]bool{}
		for _, due := range ran.take(t, 11*time.Second) {
			seen[due] = true
		}
		require.Len(t, seen, 7, "no run is missing: %v", seen)
	})
}

// Its nodes die in each attempt, so the engine sees only leases that end.
func TestARunThatKillsItsNodesIsGivenUpToo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		ctx := t.Context()
		_, err = store.SetTopic(ctx, timeout.Topic{Name: "orders", Every: "10s", Retries: 1, Lease: time.Second}, false)
		require.NoError(t, err)
		start := time.Now()
		_, err = store.Set(ctx, []timeout.Task{{Topic: "orders", ID: "1"}})
		require.NoError(t, err)
		for attempt := 1; attempt <= 2; attempt++ {
			batch, err := store.Lease(ctx, engine.Ask{Topic: "orders", Node: "dead", Max: 1, Lease: time.Second})
			require.NoError(t, err)
			require.Len(t, batch.Leased, 1)
			require.Equal(t, attempt, batch.Leased[0].Attempts)
			pass(2 * time.Second)
		}
		r := rigOn(t, store, timeout.Config{})
		ran := &runs{start: start}
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error { ran.add(task); return nil }))
		pass(time.Second)
		require.Empty(t, ran.at)
		require.EqualValues(t, 1, r.stats().Dead)
		require.Contains(t, r.state("1").Error, "the lease of dead ended in attempt 2")
		require.Equal(t, []int{2, 2}, []int{r.state("1").Calls, r.state("1").Failures}, "nobody was called when the run was given up")
		pass(10 * time.Second)
		require.Equal(t, seconds(10), ran.take(t, 300*time.Millisecond))
		require.Empty(t, r.state("1").Error)
	})
}

func TestMissedRunsAreOneRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, ran := periodic(t, timeout.Topic{Every: "10s"}, func(int, timeout.Task) error { return nil })
		r.set("1", 0)
		pass(time.Second)
		require.Len(t, ran.take(t, time.Second), 1)
		require.NoError(t, r.stop())
		pass(100*time.Second + 5*time.Second)
		r = rigOn(t, r.engine, timeout.Config{})
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error { ran.add(task); return nil }))
		pass(10 * time.Second)
		require.Equal(t, seconds(10, 110), ran.take(t, 100*time.Second))
		pass(20 * time.Second)
		require.Equal(t, seconds(120, 130), ran.take(t, 300*time.Millisecond))
	})
}

func TestAPeriodicTaskCanBeSetMovedAndRemovedLikeAnyOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var r *rig
		r, ran := periodic(t, timeout.Topic{Every: "10s"}, func(_ int, task timeout.Task) error {
			if string(task.Payload) == "last" {
				_, err := r.Remove(context.Background(), task.Key())
				return err
			}
			return nil
		})
		r.set("1", time.Second)
		pass(2 * time.Second)
		answer, err := r.MoveAfter(t.Context(), key("1"), time.Second) // from 11 to 3
		require.NoError(t, err)
		require.Equal(t, timeout.Pending, answer.Was)
		pass(22 * time.Second) // 24 seconds after the start
		require.Equal(t, seconds(1, 3, 13, 23), ran.take(t, 300*time.Millisecond))
		r.set("1", 10*time.Second)
		pass(25 * time.Second) // 49
		require.Equal(t, seconds(34, 44), ran.take(t, 300*time.Millisecond))
		answer, err = r.Set(t.Context(), timeout.Task{Topic: "orders", ID: "1", IfAbsent: true})
		require.NoError(t, err)
		require.Equal(t, timeout.Pending, answer.Was, "a program can set it at each start")
		answer, err = r.Remove(t.Context(), key("1"))
		require.NoError(t, err)
		require.Equal(t, timeout.Pending, answer.Was)
		pass(60 * time.Second)
		require.Empty(t, ran.take(t, 0))

		_, err = r.Set(t.Context(), timeout.Task{Topic: "orders", ID: "2", Payload: []byte("last")})
		require.NoError(t, err)
		pass(60 * time.Second)
		require.Len(t, ran.take(t, time.Second), 1, "a handler can remove its task")
	})
}

func TestAPeriodicTaskEndsByPermanentAndGoesOnAfterAReplay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, ran := periodic(t, timeout.Topic{Every: "10s"}, func(n int, _ timeout.Task) error {
			switch n {
			case 2:
				return timeout.Again(time.Second) // in place of the schedule
			case 3:
				return timeout.Permanent(errors.New("gone"))
			}
			return nil
		})
		r.set("1", 0)
		pass(60 * time.Second)
		require.Equal(t, timeout.Dead, r.state("1").State)
		require.Len(t, ran.take(t, 300*time.Millisecond), 3)
		answers, err := r.Replay(t.Context(), []timeout.Key{key("1")})
		require.NoError(t, err)
		require.Equal(t, timeout.Dead, answers[0].Was)
		pass(15 * time.Second)
		require.Len(t, ran.take(t, 300*time.Millisecond), 2)
	})
}

func TestATopicCanGetAndLoseItsSchedule(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, ran := periodic(t, timeout.Topic{}, func(int, timeout.Task) error { return nil })
		r.set("1", 10*time.Second)
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Every: "60s"})
		require.NoError(t, err)
		pass(180 * time.Second)
		require.Equal(t, seconds(10, 70, 130), ran.take(t, 300*time.Millisecond))
		_, err = r.SetTopic(t.Context(), timeout.Topic{Name: "orders"})
		require.NoError(t, err)
		pass(180 * time.Second)
		require.Equal(t, seconds(190), ran.take(t, 300*time.Millisecond))
		require.Equal(t, timeout.None, r.state("1").State)
	})
}

func TestFeedbackEndsARunOfAPeriodicTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tokens := make(chan timeout.Token, 1)
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Every: "10s", Retries: -1}})
		ran := &runs{start: time.Now()}
		require.NoError(t, r.Handle("orders", func(ctx context.Context, task timeout.Task) error {
			ran.add(task)
			token, _ := timeout.TokenOf(ctx)
			tokens <- token
			return timeout.ErrAccepted
		}))
		r.set("1", 0)
		for _, failure := range []error{nil, errors.New("broken"), nil} {
			token := <-tokens
			pass(5 * time.Second)
			settled, err := r.Feedback(t.Context(), token, failure)
			require.NoError(t, err)
			require.True(t, settled)
			task := r.state("1")
			require.Equal(t, timeout.Pending, task.State)
			require.Equal(t, failure != nil, task.Error != "")
		}
		require.Len(t, ran.take(t, 300*time.Millisecond), 3)
		_, err := r.Remove(t.Context(), key("1"))
		require.NoError(t, err)
	})
}

// Events that go on and on are one run, at the time of the first.
func TestSetsThatKeepTheTimeDoNotPutOffARun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		type run struct {
			due     time.Duration
			payload string
		}
		var ran []run
		began := time.Now()
		require.NoError(t, r.Handle("hooks", func(_ context.Context, task timeout.Task) error {
			require.False(t, time.Now().Before(task.Due))
			ran = append(ran, run{task.Due.Sub(began), string(task.Payload)})
			return nil
		}))
		for i := range 12 {
			_, err := r.Set(t.Context(), timeout.Task{Topic: "hooks", ID: "1", Payload: fmt.Append(nil, i), After: 4500 * time.Millisecond, KeepDue: true})
			require.NoError(t, err)
			pass(time.Second)
		}
		require.Equal(t, []run{{4500 * time.Millisecond, "4"}, {9500 * time.Millisecond, "9"}}, ran)
		_, err := r.Set(t.Context(), timeout.Task{Topic: "hooks", ID: "1", KeepDue: true, IfAbsent: true})
		require.ErrorIs(t, err, timeout.ErrArgument)
		require.ErrorContains(t, err, "KeepDue and IfAbsent of hooks/1, must be one of them")
	})
}

// A task that waits for a place of the node is Running to the engine. Sets that go on do not put it off behind all others.
func TestSetsThatKeepTheTimeDoNotPutOffATaskInAQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "hooks", Concurrency: 1})
		require.NoError(t, err)
		var first time.Duration
		began := time.Now()
		require.NoError(t, r.Handle("hooks", func(_ context.Context, task timeout.Task) error {
			if task.ID != "x" {
				time.Sleep(1200 * time.Millisecond)
			} else if first == 0 {
				first = time.Since(began)
			}
			return nil
		}))
		for i := range 200 {
			_, err := r.SetAll(t.Context(), []timeout.Task{ // more than can be done
				{Topic: "hooks", ID: fmt.Sprint(i, "a")}, {Topic: "hooks", ID: fmt.Sprint(i, "b")}, {Topic: "hooks", ID: "x", After: 2 * time.Second, KeepDue: true},
			})
			require.NoError(t, err)
			pass(time.Second)
		}
		require.Positive(t, first)
		require.Less(t, first, time.Minute)
	})
}

// A target that puts off each attempt takes none from the task, in the last attempt of a run neither.
func TestARunWithoutACountedAttemptHasNone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, _ := periodic(t, timeout.Topic{Every: "10s", Retain: time.Hour}, func(int, timeout.Task) error {
			return timeout.RetryAfter(timeout.Uncounted(io.EOF), time.Hour)
		})
		r.set("1", 0)
		pass(15 * time.Second)
		log, err := r.Executions(t.Context(), key("1"), 10)
		require.NoError(t, err)
		task := r.state("1")
		require.Equal(t, []int{0, 0, 0}, []int{task.Calls, task.Failures, len(log)})
		require.Equal(t, "EOF", task.Error)
	})
}

func TestTheFirstRunCanBeOnSchedule(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Every: "0 * * * *"})
		require.NoError(t, err)
		var ran []time.Time
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error { ran = append(ran, task.Due); return nil }))
		pass(10 * time.Minute)
		now := time.Now()
		answer, err := r.Set(t.Context(), timeout.Task{Topic: "orders", ID: "1", OnSchedule: true})
		require.NoError(t, err)
		first := now.Truncate(time.Hour).Add(time.Hour)
		require.True(t, first.Equal(answer.Due), "%v", answer.Due)
		pass(2 * time.Hour)
		require.Len(t, ran, 2)
		require.True(t, first.Equal(ran[0]))

		answers, err := r.SetAll(t.Context(), []timeout.Task{{Topic: "orders", ID: "2", OnSchedule: true}, {Topic: "orders", ID: "3", After: time.Minute}})
		require.NoError(t, err)
		require.Zero(t, answers[0].Due.Minute())
		require.NotZero(t, answers[1].Due.Minute())

		_, err = r.Set(t.Context(), timeout.Task{Topic: "once", ID: "1", OnSchedule: true})
		require.ErrorIs(t, err, timeout.ErrConflict)
		require.ErrorContains(t, err, "topic once has no Every")
		_, err = r.Set(t.Context(), timeout.Task{Topic: "orders", ID: "1", OnSchedule: true, After: 1})
		require.ErrorIs(t, err, timeout.ErrArgument)
	})
}
