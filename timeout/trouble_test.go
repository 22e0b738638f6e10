package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// shaky is an engine with faults to switch on. It counts its calls.
type shaky struct {
	engine.Engine
	down    atomic.Bool
	deaf    atomic.Bool // does what it is asked, and the answer is lost
	sets    atomic.Int64
	largest atomic.Int64
	slow    atomic.Int64 // how long a set takes
	late    atomic.Int64 // how long the answer of Lease takes
	each    atomic.Int64 // and how much longer for each lease
}

var errDown = errors.New("connection refused")

func newShaky(t *testing.T) *shaky {
	engine, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	return &shaky{Engine: engine}
}

func (s *shaky) Set(ctx context.Context, tasks []timeout.Task) ([]timeout.Answer, error) {
	s.sets.Add(1)
	s.largest.Store(max(s.largest.Load(), int64(len(tasks))))
	time.Sleep(time.Duration(s.slow.Load()))
	if s.down.Load() {
		return nil, errDown
	}
	return s.Engine.Set(ctx, tasks)
}

func (s *shaky) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	if s.down.Load() {
		return engine.Batch{}, errDown
	}
	batch, err := s.Engine.Lease(ctx, ask)
	time.Sleep(time.Duration(s.each.Load()) * time.Duration(len(batch.Leased)))
	time.Sleep(time.Duration(s.late.Load()))
	if s.deaf.Load() {
		return engine.Batch{}, errDown
	}
	return batch, err
}

func (s *shaky) Extend(ctx context.Context, tokens []timeout.Token, lease time.Duration) ([]bool, error) {
	if s.down.Load() {
		return nil, errDown
	}
	return s.Engine.Extend(ctx, tokens, lease)
}

func (s *shaky) Heartbeat(ctx context.Context, node engine.Node, ttl time.Duration) (engine.View, error) {
	if s.down.Load() {
		return engine.View{}, errDown
	}
	return s.Engine.Heartbeat(ctx, node, ttl)
}

// If tasks arrive while the center stops, it begins none of them.
func TestStoppingHandsBackWhatIsLeasedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		engine := newShaky(t)
		engine.late.Store(int64(time.Second))
		r := rigOn(t, engine, timeout.Config{Topic: timeout.Topic{Slots: 1}})
		var ran atomic.Int64
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
			ran.Add(1)
			return nil
		}))
		r.set("a", 0)
		for r.state("a").State != timeout.Running {
			pass(10 * time.Millisecond)
		}
		require.NoError(t, r.stop())
		pass(time.Minute)
		require.Zero(t, ran.Load())
		require.Equal(t, timeout.Pending, r.state("a").State)
		require.Zero(t, r.state("a").Attempts)
	})
}

// A handler hanging after the loss of its lease keeps its place for one more lease.
func TestAHandlerThatHangsWithoutALeaseLosesItsPlace(t *testing.T) {
	for name, end := range map[string]func(*rig, *shaky){
		"removed": func(r *rig, _ *shaky) {
			_, err := r.Remove(r.t.Context(), key("hangs"))
			require.NoError(r.t, err)
		},
		"set anew":    func(r *rig, _ *shaky) { r.set("hangs", time.Hour) },
		"engine away": func(_ *rig, engine *shaky) { engine.down.Store(true); pass(time.Second); engine.down.Store(false) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				engine := newShaky(t)
				r := rigOn(t, engine, timeout.Config{Topic: timeout.Topic{
					Concurrency: 1, Slots: 1, Lease: 300 * time.Millisecond, Timeout: 600 * time.Millisecond, Retries: -1,
				}})
				free, ran := make(chan struct{}), new(record)
				require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
					if ran.add(task.ID); task.ID == "hangs" {
						<-free
					}
					return nil
				}))
				r.set("hangs", 0)
				pass(100 * time.Millisecond)
				r.set("waits", 0)
				end(r, engine)
				pass(5 * time.Second)
				require.Contains(t, ran.all(), "waits")
				require.NotZero(t, r.stats().Abandoned)
				close(free)
				pass(time.Second)
				require.Equal(t, timeout.None, r.state("waits").State)
			})
		})
	}
}

// Otherwise a hanging handler leaves a goroutine behind for each attempt.
func TestHandlersThatHangAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{
			Concurrency: 3, Lease: time.Second, Timeout: time.Second, Retries: -1,
		}})
		var running atomic.Int64
		free, hung := make(chan struct{}), make(chan struct{}, 100)
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			running.Add(1)
			defer running.Add(-1)
			if task.ID != "fine" {
				hung <- struct{}{}
				<-free
			}
			return nil
		}))
		for i := range 50 {
			r.set(fmt.Sprint(i), 0)
		}
		pass(10 * time.Minute)
		require.EqualValues(t, 6, running.Load(), "as many as may run, twice")
		require.EqualValues(t, 3, r.stats().Abandoned)
		require.Len(t, hung, 6)
		free <- struct{}{}
		pass(10 * time.Second)
		require.Greater(t, len(hung), 6, "one has returned, and so another one has lost its place")
		require.EqualValues(t, 6, running.Load())
		close(free)
		pass(time.Minute)
		require.Zero(t, running.Load())
		r.set("fine", 0)
		pass(time.Second)
		require.Equal(t, timeout.None, r.state("fine").State)
	})
}

// A handler that has lost its place runs all the same.
func TestRunTellsOfHandlersThatHaveLostTheirPlaces(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Lease: time.Second, Timeout: time.Second, Retries: -1}})
		hang := make(chan struct{})
		defer close(hang)
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
			<-hang
			return nil
		}))
		r.set("1", 0)
		pass(3500 * time.Millisecond)
		require.EqualValues(t, 1, r.stats().Abandoned)
		require.Zero(t, r.stats().Running)
		require.ErrorContains(t, r.stop(), "1 handlers still run")
	})
}

// A task accepted by its target is not tried again at once if its lease can't be extended: the old
// lease goes on.
func TestAcceptedIsNoFailureWhereTheEngineIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		engine := newShaky(t)
		r := rigOn(t, engine, timeout.Config{Topic: timeout.Topic{Lease: 10 * time.Second}})
		var calls atomic.Int64
		token := make(chan timeout.Token, 1)
		require.NoError(t, r.Handle("orders", func(ctx context.Context, _ timeout.Task) error {
			if calls.Add(1) == 1 {
				own, _ := timeout.TokenOf(ctx)
				engine.down.Store(true)
				token <- own
			}
			return timeout.ErrAccepted
		}))
		r.set("a", 0)
		own := <-token
		pass(3 * time.Second)
		engine.down.Store(false)
		require.EqualValues(t, 1, calls.Load())
		require.Zero(t, r.stats().Failed)
		settled, err := r.Feedback(t.Context(), own, nil)
		require.NoError(t, err)
		require.True(t, settled)
		require.Equal(t, timeout.None, r.state("a").State)
	})
}

// With a backlog the engine is asked for more while what it gave before is run: it never has
// nothing to do.
func TestTheEngineIsAskedForMoreBeforeWhatItGaveIsDone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		engine := newShaky(t)
		r := rigOn(t, engine, timeout.Config{Topic: timeout.Topic{Concurrency: 64}})
		tasks := make([]timeout.Task, 20_000)
		for i := range tasks {
			tasks[i] = timeout.Task{Topic: "orders", ID: fmt.Sprint(i)}
		}
		_, err := r.SetAll(t.Context(), tasks)
		require.NoError(t, err)
		engine.late.Store(int64(10 * time.Millisecond))
		var ran atomic.Int64
		began := time.Now()
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
			time.Sleep(500 * time.Microsecond) // with 64 at a time about as fast as the engine
			ran.Add(1)
			return nil
		}))
		for ran.Load() < int64(len(tasks)) {
			pass(10 * time.Millisecond)
		}
		// The handlers alone take 156 ms, one call after the other with them 360.
		require.Less(t, time.Since(began), 300*time.Millisecond)
	})
}

func TestSingleCallsThatComeTogetherGoTogether(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		engine := newShaky(t)
		engine.slow.Store(int64(10 * time.Millisecond))
		r := rigOn(t, engine, timeout.Config{})
		r.set("first", time.Hour)
		engine.sets.Store(0)
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				answer, err := r.Set(t.Context(), timeout.Task{Topic: "orders", ID: fmt.Sprint(i), After: time.Hour})
				if err != nil || answer.Was != timeout.None || answer.Version == 0 {
					panic(fmt.Sprint(answer, err))
				}
			})
		}
		all.Wait()
		require.LessOrEqual(t, engine.sets.Load(), int64(5))
		require.LessOrEqual(t, engine.largest.Load(), int64(512))

		engine.down.Store(true)
		_, err := r.Set(t.Context(), timeout.Task{Topic: "orders", ID: "1"})
		require.ErrorIs(t, err, errDown)

		engine.slow.Store(int64(time.Minute))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = r.Set(ctx, timeout.Task{Topic: "orders", ID: "1"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		engine.slow.Store(0)
	})
}

func TestNothingIsLostWhereTheEngineIsAwayAndNothingRunsTwiceWithoutACause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		engine := newShaky(t)
		r := rigOn(t, engine, timeout.Config{Topic: timeout.Topic{Lease: 3 * time.Second}})
		var mu sync.Mutex
		ran := map[string]int{}
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			mu.Lock()
			defer mu.Unlock()
			ran[task.ID]++
			return nil
		}))
		pass(time.Second)
		for i := range 100 {
			r.set(fmt.Sprint(i), time.Duration(i)*100*time.Millisecond)
		}
		pass(3050 * time.Millisecond)
		engine.down.Store(true)
		pass(4 * time.Second)
		engine.down.Store(false)
		pass(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, ran, 100)
		for id, n := range ran {
			require.Equal(t, 1, n, id)
		}
	})
}

// Whoever leases more than can be told of within a lease has none of it, and would again and
// again until all are dead.
func TestNoMoreIsLeasedThanTheEngineCanTellWithinALease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		engine := newShaky(t)
		engine.each.Store(int64(3 * time.Millisecond))
		r := rigOn(t, engine, timeout.Config{Topic: timeout.Topic{Lease: time.Second}})
		const n = 3000
		for i := range n {
			r.set(fmt.Sprint(i), 0)
		}
		ran := 0
		var mu sync.Mutex
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
			mu.Lock()
			defer mu.Unlock()
			ran++
			return nil
		}))
		pass(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, n, ran)
		require.Zero(t, r.stats().Lost)
	})
}

func TestAnAnswerThatIsLostCostsALeaseAndNoTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		engine := newShaky(t)
		r := rigOn(t, engine, timeout.Config{Topic: timeout.Topic{Lease: 3 * time.Second}})
		ran := 0
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { ran++; return nil }))
		pass(time.Second)
		engine.deaf.Store(true)
		r.set("1", 0)
		pass(time.Second)
		engine.deaf.Store(false)
		require.Equal(t, timeout.Running, r.state("1").State)
		pass(5 * time.Second)
		require.Equal(t, 1, ran)
		require.EqualValues(t, 1, r.stats().Again)
	})
}

func TestTheContextEndsWithTheLeaseWhereTheEngineIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		engine := newShaky(t)
		r := rigOn(t, engine, timeout.Config{Topic: timeout.Topic{Lease: 3 * time.Second}})
		start, lost := time.Now(), make(chan time.Duration, 10)
		require.NoError(t, r.Handle("orders", func(ctx context.Context, _ timeout.Task) error {
			<-ctx.Done()
			lost <- time.Since(start)
			return context.Cause(ctx)
		}))
		r.set("1", 0)
		pass(500 * time.Millisecond)
		engine.down.Store(true)
		pass(10 * time.Second)
		require.Len(t, lost, 1)
		require.InDelta(t, 3, (<-lost).Seconds(), 1)
		require.EqualValues(t, 1, r.stats().Lost)
		engine.down.Store(false)
	})
}

func TestATopicThatWasDroppedIsMadeAgainByUse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		r.set("1", time.Hour)
		require.NoError(t, r.engine.DropTopic(t.Context(), "orders")) // by somebody else
		answer := r.set("1", time.Hour)
		require.Equal(t, timeout.None, answer.Was)
		answers, err := r.SetAll(t.Context(), []timeout.Task{{Topic: "orders", ID: "1"}, {Topic: "mails", ID: "1"}})
		require.NoError(t, err)
		require.Equal(t, timeout.Pending, answers[0].Was)
		require.NoError(t, r.DropTopic(t.Context(), "mails"))
		require.ErrorIs(t, r.DropTopic(t.Context(), "mails"), timeout.ErrNotFound)
	})
}

func TestAClosedCenterRefusesAllCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		require.NoError(t, r.stop())
		require.NoError(t, r.Close())
		for name, call := range calls(t.Context(), r.Center, timeout.Token{}) {
			require.ErrorIs(t, call(), timeout.ErrClosed, name)
		}
		require.ErrorIs(t, r.Run(t.Context()), timeout.ErrClosed)
		for name, call := range map[string]func() ([]timeout.Answer, error){
			"SetAll":    func() ([]timeout.Answer, error) { return r.SetAll(t.Context(), nil) },
			"MoveAll":   func() ([]timeout.Answer, error) { return r.MoveAll(t.Context(), nil) },
			"RemoveAll": func() ([]timeout.Answer, error) { return r.RemoveAll(t.Context(), nil) },
			"Replay":    func() ([]timeout.Answer, error) { return r.Replay(t.Context(), nil) },
		} {
			_, err := call()
			require.ErrorIs(t, err, timeout.ErrClosed, "%s of nothing", name)
		}
	})
}

func TestABadConfigurationIsRefusedWithItsLimit(t *testing.T) {
	_, err := timeout.New(nil, timeout.Config{})
	require.ErrorIs(t, err, timeout.ErrArgument)
	shaky := newShaky(t)
	for _, cfg := range []timeout.Config{
		{TTL: time.Millisecond},
		{Poll: time.Microsecond},
		{CircuitWait: -1},
		{Node: strings.Repeat("n", engine.MaxID+1)},
		{Node: "a\x00"}, // PostgreSQL would refuse each heartbeat
		{Node: "B\xfcro"},
		{Node: "a\nb"},
		{Topic: timeout.Topic{Slots: 3}},
		{Topic: timeout.Topic{Slots: 2048}},
		{Topic: timeout.Topic{Lease: time.Millisecond}},
		{Topic: timeout.Topic{Backoff: time.Hour, BackoffMax: time.Minute}},
		{Topic: timeout.Topic{Retain: -1}},
		{Topic: timeout.Topic{Rate: -1}},
	} {
		_, err := timeout.New(shaky, cfg)
		require.ErrorIs(t, err, timeout.ErrArgument, "%+v", cfg)
	}
}
