package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// targets is a Caller. Its targets do as their names say.
type targets struct {
	mu    sync.Mutex
	calls map[string]int
}

func (*targets) Check(call timeout.Callback) error {
	if call.Target == "bad" {
		return fmt.Errorf("%w: target %q", timeout.ErrArgument, call.Target)
	}
	return nil
}

func (*targets) Circuit(call timeout.Callback) string { return call.Target }

func (c *targets) Call(ctx context.Context, _ timeout.Task, call timeout.Callback) error {
	c.mu.Lock()
	c.calls[call.Target]++
	c.mu.Unlock()
	switch {
	case call.Target == "dead":
		return errors.New("connection refused")
	case call.Target == "final":
		return timeout.Permanent(errors.New("answer 410 Gone"))
	case call.Target == "impossible":
		return timeout.Permanent(fmt.Errorf("%w: message too long", timeout.ErrArgument))
	case strings.HasPrefix(call.Target, "stuck"):
		<-ctx.Done()
		return context.Cause(ctx)
	case call.Target == "again":
		return timeout.Again(time.Second)
	case call.Target == "slow":
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

func (c *targets) count(target string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[target]
}

func withTargets(t *testing.T, topic timeout.Topic) (*rig, *targets) {
	caller := &targets{calls: map[string]int{}}
	return newRig(t, timeout.Config{All: true, Topic: topic, Callers: map[string]timeout.Caller{"fake": caller}}), caller
}

func (r *rig) call(id, target string) {
	r.t.Helper()
	_, err := r.Set(r.t.Context(), timeout.Task{
		Topic: "orders", ID: id, Callback: &timeout.Callback{Kind: "fake", Target: target},
	})
	require.NoError(r.t, err)
}

func TestADeadTargetGetsFewCallsAndHoldsUpNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, caller := withTargets(t, timeout.Topic{Backoff: time.Second, BackoffMax: time.Second})
		for i := range 200 {
			r.call(fmt.Sprint("dead-", i), "dead")
		}
		pass(time.Second)
		for i := range 200 {
			r.call(fmt.Sprint("good-", i), "good")
		}
		pass(time.Second)
		require.Equal(t, 200, caller.count("good"))
		pass(time.Minute)
		require.Less(t, caller.count("dead"), 100, "200 tasks, each of which may be tried each second")
		require.Equal(t, []string{"fake dead"}, r.OpenCircuits())
		require.NotZero(t, r.stats().Postponed)
		task := r.state("dead-7")
		require.Equal(t, timeout.Pending, task.State)
		require.LessOrEqual(t, task.Attempts, 10, "what is put off is no attempt")
	})
}

// A proxy with a 410 for everything would kill a whole topic within a second.
func TestATargetWhoseAnswersAreAllFinalOpensItsCircuitToo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, caller := withTargets(t, timeout.Topic{})
		for i := range 100 {
			r.call(fmt.Sprint("final-", i), "final")
			r.call(fmt.Sprint("impossible-", i), "impossible")
			pass(10 * time.Millisecond)
		}
		pass(5 * time.Second)
		require.Equal(t, 5, caller.count("final"), "and the others wait for better times")
		require.Equal(t, 100, caller.count("impossible"), "a call that can't be made says nothing of its target")
		require.Equal(t, []string{"fake final"}, r.OpenCircuits())
	})
}

// Somebody has mended the target, and does not want to wait for a trial.
func TestACircuitIsClosedByHand(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		caller := &targets{calls: map[string]int{}}
		r := newRig(t, timeout.Config{All: true, CircuitWait: time.Hour, Callers: map[string]timeout.Caller{"fake": caller}})
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Concurrency: 1, Callback: &timeout.Callback{Kind: "fake", Target: "dead"}})
		require.NoError(t, err)
		for i := range 10 {
			r.set(fmt.Sprint(i), 0)
		}
		pass(10 * time.Minute)
		require.Equal(t, 5, caller.count("dead"))
		require.False(t, r.CloseCircuit("fake good"))
		require.True(t, r.CloseCircuit("fake dead"))
		pass(10 * time.Minute)
		require.Equal(t, 10, caller.count("dead"), "it takes as many failures to open it again")
		require.Equal(t, []string{"fake dead"}, r.OpenCircuits())
	})
}

func TestACircuitOfVeryManyFailuresStaysClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		caller := &targets{calls: map[string]int{}}
		r := newRig(t, timeout.Config{All: true, Circuit: 1 << (strconv.IntSize / 2), Callers: map[string]timeout.Caller{"fake": caller}})
		r.call("1", "dead")
		pass(time.Minute)
		require.Greater(t, caller.count("dead"), 1)
		require.Empty(t, r.OpenCircuits())
	})
}

func TestATargetThatIsCalledAgainAndAgainKeepsItsCircuitClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, caller := withTargets(t, timeout.Topic{})
		r.call("1", "again")
		for range 60 {
			pass(time.Second)
			require.Empty(t, r.OpenCircuits())
		}
		require.Greater(t, caller.count("again"), 40)
		require.Zero(t, r.stats().Postponed)
	})
}

func TestAStuckTargetLeavesRoomForOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, caller := withTargets(t, timeout.Topic{Concurrency: 4, Timeout: time.Hour})
		r.call("first", "good")
		pass(time.Second)
		r.call("s0", "stuck")
		r.call("s1", "stuck")
		pass(2 * time.Second)
		for i := range 50 {
			r.call(fmt.Sprint("stuck-", i), "stuck")
		}
		pass(2 * time.Second)
		for i := range 50 {
			r.call(fmt.Sprint("good-", i), "good")
		}
		pass(30 * time.Second)
		require.Equal(t, 51, caller.count("good"))
		require.LessOrEqual(t, caller.count("stuck"), 2)
	})
}

// The target has answered until now, and hangs from one moment to the next with many calls.
func TestATargetThatBeginsToHangLeavesRoomForOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, caller := withTargets(t, timeout.Topic{Timeout: 30 * time.Second})
		r.call("before", "good")
		r.call("before too", "stuck")
		pass(time.Minute)
		for target := range 3 { // not one alone
			for i := range 199 {
				r.call(fmt.Sprint(target, "-", i), fmt.Sprint("stuck", target))
			}
		}
		for i := range 5 {
			r.call(fmt.Sprint("good-", i), "good")
		}
		pass(2 * time.Second)
		require.Equal(t, 6, caller.count("good"))
		for target := range 3 {
			calls := caller.count(fmt.Sprint("stuck", target))
			require.Positive(t, calls)
			require.LessOrEqual(t, calls, engine.DefaultConcurrency/2)
		}
	})
}

// An answering target gets more calls than its share has places, one after the other, and no task
// is put off for long.
func TestABurstForOneOfSeveralTargetsIsNotSlow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, caller := withTargets(t, timeout.Topic{})
		for i := range 2000 {
			r.call(fmt.Sprint("slow-", i), "slow") // takes 10 ms
		}
		pass(time.Second)
		require.Equal(t, 2000, caller.count("slow"))
		require.Zero(t, r.stats().Postponed)
	})
}

func TestACallThatIsBrokenOffIsNoFailureOfItsTarget(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, caller := withTargets(t, timeout.Topic{Lease: 3 * time.Second})
		for i := range 20 {
			r.call(fmt.Sprint(i), "stuck")
		}
		pass(time.Second)
		require.Equal(t, 20, caller.count("stuck"))
		for i := range 20 { // set anew while they are being called: those calls are in vain
			r.set(fmt.Sprint(i), time.Hour)
		}
		pass(5 * time.Second)
		require.EqualValues(t, 20, r.stats().Lost)
		require.Empty(t, r.OpenCircuits())
		r.call("next", "stuck")
		pass(time.Second)
		require.Equal(t, 21, caller.count("stuck"), "the target is called as before")
	})
}

// probed is a Caller. Its target fails five times, hangs once whatever the context says, and is well then.
type probed struct {
	targets
	made atomic.Int64
	end  chan struct{}
}

func (p *probed) Call(context.Context, timeout.Task, timeout.Callback) error {
	switch made := p.made.Add(1); {
	case made <= 5:
		return errors.New("connection refused")
	case made == 6:
		<-p.end
	}
	return nil
}

func TestACallThatHangsForEverIsNotTheLastOneOfItsTarget(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		caller := &probed{end: make(chan struct{})}
		r := newRig(t, timeout.Config{
			All: true, Topic: timeout.Topic{Timeout: time.Minute, Lease: 3 * time.Second, BackoffMax: time.Second, Retries: 100, Retain: time.Hour},
			Callers: map[string]timeout.Caller{"fake": caller},
		})
		r.call("1", "probed")
		pass(time.Minute)
		require.EqualValues(t, 6, caller.made.Load())
		require.Equal(t, []string{"fake probed"}, r.OpenCircuits(), "the trial has no end yet")
		r.call("2", "probed")
		pass(time.Second)
		require.EqualValues(t, 7, caller.made.Load(), "the trial has had its time")
		require.Equal(t, timeout.Done, r.state("2").State)
		require.Empty(t, r.OpenCircuits())
		pass(2 * time.Minute)
		require.EqualValues(t, 8, caller.made.Load())
		require.Equal(t, timeout.Done, r.state("1").State)
		require.Empty(t, r.OpenCircuits())
		close(caller.end)
		pass(time.Second)
		require.Zero(t, r.stats().Running)
		require.Empty(t, r.OpenCircuits())
	})
}

// Other topics may have the same target.
func TestACallThatHangsWhenItsTopicEndsIsNotTheLastOneOfItsTarget(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		caller := &probed{end: make(chan struct{})}
		r := newRig(t, timeout.Config{
			All: true, Topic: timeout.Topic{Timeout: time.Hour, Lease: time.Minute, BackoffMax: time.Second, Retries: 100},
			Callers: map[string]timeout.Caller{"fake": caller},
		})
		r.call("1", "probed")
		pass(time.Minute)
		require.EqualValues(t, 6, caller.made.Load())
		require.NoError(t, r.DropTopic(t.Context(), "orders"))
		pass(20 * time.Second)
		_, err := r.Set(t.Context(), timeout.Task{Topic: "mails", ID: "1", Callback: &timeout.Callback{Kind: "fake", Target: "probed"}})
		require.NoError(t, err)
		pass(20 * time.Second)
		require.EqualValues(t, 7, caller.made.Load())
		close(caller.end)
		pass(time.Second)
		require.Empty(t, r.OpenCircuits())
	})
}

func TestATopicHasACallbackForTasksWithoutOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, caller := withTargets(t, timeout.Topic{})
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Callback: &timeout.Callback{Kind: "fake", Target: "topic"}})
		require.NoError(t, err)
		r.set("1", time.Second)
		r.call("2", "own")
		pass(5 * time.Second)
		require.Equal(t, 1, caller.count("topic"))
		require.Equal(t, 1, caller.count("own"))
	})
}

func TestATaskThatThisNodeCanNotRunIsLeftToOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, _ := withTargets(t, timeout.Topic{})
		r.set("1", 0)
		pass(time.Minute)
		require.Equal(t, timeout.Pending, r.state("1").State)
		require.LessOrEqual(t, r.state("1").Attempts, 1)
		require.NotZero(t, r.stats().Postponed)
	})
}

func TestCallbacksThatCanNeverBeMadeAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, _ := withTargets(t, timeout.Topic{})
		for _, call := range []timeout.Callback{
			{Kind: "fake", Target: "bad"},
			{Kind: "pigeon", Target: "home"},
			{Kind: "fake"},
			{Kind: "fake", Target: strings.Repeat("x", 9000)},
			{Kind: "fake", Target: "x", Timeout: -1},
			{Kind: "fake", Target: "x", Final: []int{399}},
			{Kind: "fake", Target: "x", Final: []int{422, 600}},
			{Kind: "fake", Target: "x", Final: make([]int, engine.MaxFinal+1)},
		} {
			_, err := r.Set(t.Context(), timeout.Task{Topic: "orders", ID: "1", Callback: &call})
			require.ErrorIs(t, err, timeout.ErrArgument)
			_, err = r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Callback: &call})
			require.ErrorIs(t, err, timeout.ErrArgument)
		}
	})
}

func TestAPulledTopicSharesNoPlacesByTargets(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, _ := withTargets(t, timeout.Topic{})
		r.pulled(timeout.Topic{Concurrency: 4})
		var now, most atomic.Int64
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		}))
		for i := range 8 {
			r.call(fmt.Sprint(i), "good")
		}
		pass(time.Minute)
		require.EqualValues(t, 4, most.Load())
	})
}

func TestAPulledTopicMakesNoCallbacks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, caller := withTargets(t, timeout.Topic{})
		r.pulled(timeout.Topic{})
		ran := 0
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { ran++; return nil }))
		r.call("1", "good")
		pass(time.Minute)
		require.Zero(t, caller.count("good"))
		require.Equal(t, 1, ran)
	})
}
