package timeout_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// counted is an engine that counts what it leases.
type counted struct {
	engine.Engine
	asked, leased atomic.Int64
}

func (c *counted) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	batch, err := c.Engine.Lease(ctx, ask)
	c.asked.Add(1)
	c.leased.Add(int64(len(batch.Leased)))
	return batch, err
}

// Wake is needed for trials in time: the engine says only by it when tasks that were put off are back.
func (c *counted) Wake(ctx context.Context, wake func(string), ended func(timeout.Key)) error {
	return c.Engine.(engine.Waker).Wake(ctx, wake, ended)
}

// hosts is a Caller. A target is a host and a path, and each host has a circuit.
type hosts struct {
	mu    sync.Mutex
	calls map[string]int
	down  map[string]error // by target
	fails string           // how targets begin that are down, or empty
}

func (*hosts) Check(timeout.Callback) error { return nil }

func (*hosts) Circuit(call timeout.Callback) string {
	host, _, _ := strings.Cut(call.Target, "/")
	return host
}

func (h *hosts) Call(_ context.Context, _ timeout.Task, call timeout.Callback) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[call.Target]++
	if h.fails != "" && strings.HasPrefix(call.Target, h.fails) {
		return errRefused
	}
	return h.down[call.Target]
}

func (h *hosts) set(target string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down[target] = err
}

func (h *hosts) count(target string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[target]
}

var errRefused = errors.New("connection refused")

func withHosts(t *testing.T, cfg timeout.Config) (*rig, *counted, *hosts) {
	e, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	counts, caller := &counted{Engine: e}, &hosts{calls: map[string]int{}, down: map[string]error{}}
	cfg.All, cfg.Poll = true, time.Second
	if cfg.Callers == nil {
		cfg.Callers = map[string]timeout.Caller{"fake": caller}
	}
	return rigOn(t, counts, cfg), counts, caller
}

// calls makes a topic with a callback.
func (r *rig) calls(topic, target string) {
	r.t.Helper()
	_, err := r.SetTopic(r.t.Context(), timeout.Topic{Name: topic, Callback: &timeout.Callback{Kind: "fake", Target: target}})
	require.NoError(r.t, err)
}

// many sets n tasks that are due at once. Without a target they have no callback of their own.
func (r *rig) many(topic string, n int, target string) {
	r.t.Helper()
	tasks := make([]timeout.Task, n)
	for i := range tasks {
		tasks[i] = timeout.Task{Topic: topic, ID: fmt.Sprint(target, i)}
		if target != "" {
			tasks[i].Callback = &timeout.Callback{Kind: "fake", Target: target}
		}
	}
	_, err := r.SetAll(r.t.Context(), tasks)
	require.NoError(r.t, err)
}

func (r *rig) counts(topic string) timeout.Counts {
	r.t.Helper()
	counts, err := r.Count(r.t.Context(), topic)
	require.NoError(r.t, err)
	return counts
}

func TestNothingIsLeasedForATargetThatIsDownButItsTrials(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, engine, caller := withHosts(t, timeout.Config{})
		caller.set("host/a", errRefused)
		r.calls("a", "host/a")
		r.many("a", 1000, "")
		pass(time.Minute)
		leased, calls := engine.leased.Load(), caller.count("host/a")
		pass(5 * time.Minute)
		trials := caller.count("host/a") - calls
		require.InDelta(t, 27, trials, 4)
		require.EqualValues(t, trials, engine.leased.Load()-leased)
		require.Equal(t, []string{"fake host"}, r.OpenCircuits())
		counts := r.counts("a")
		require.Greater(t, counts.Due, int64(900))
		require.Greater(t, counts.Lag, 5*time.Minute)

		caller.set("host/a", nil)
		pass(20 * time.Second)
		require.Less(t, r.counts("a").Pending, int64(100), "those that wait for a retry of their own")
		require.Empty(t, r.OpenCircuits())
	})
}

func TestATopicThatOnceHadATaskWithACallbackOfItsOwnIsHeldAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, engine, caller := withHosts(t, timeout.Config{})
		r.calls("a", "host/a")
		r.many("a", 1, "other/b")
		pass(time.Second)
		require.Equal(t, 1, caller.count("other/b"))
		caller.set("host/a", errRefused)
		r.many("a", 100, "")
		pass(time.Minute)
		leased := engine.leased.Load()
		require.Greater(t, leased, int64(200), "others of that kind may stand behind")
		pass(6 * time.Minute)
		leased, calls := engine.leased.Load(), caller.count("host/a")
		pass(5 * time.Minute)
		require.EqualValues(t, caller.count("host/a")-calls, engine.leased.Load()-leased, "the trials")
	})
}

func TestManyTasksPutOffForATargetCostNoMoreThanFew(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, engine, caller := withHosts(t, timeout.Config{})
		caller.set("host/a", errRefused)
		r.many("orders", 1000, "host/a")
		pass(70 * time.Second)
		leased := engine.leased.Load()
		require.Greater(t, r.counts("orders").Lag, time.Minute)
		pass(time.Minute)
		require.Less(t, engine.leased.Load()-leased, int64(60*60), "and not 6,000, as if each came each 10 s")
		caller.set("host/a", nil)
		pass(2 * time.Minute)
		require.Less(t, r.counts("orders").Pending, int64(100))
		pass(3 * time.Minute)
		require.Zero(t, r.counts("orders").Lag)
	})
}

func TestFewTasksPutOffForATargetComeBackSoonHoweverLongItWasDown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, _, caller := withHosts(t, timeout.Config{})
		caller.set("host/a", errRefused)
		r.many("orders", 100, "host/a")
		pass(3 * time.Minute)
		caller.set("host/a", nil)
		before := caller.count("host/a")
		pass(30 * time.Second)
		require.Greater(t, caller.count("host/a")-before, 80)
	})
}

// A node may not know that there are tasks with callbacks of their own behind those that it holds, or before them.
func TestATaskWithACallbackOfItsOwnPassesThoseThatWait(t *testing.T) {
	for _, c := range []struct {
		name   string
		served bool          // the others wait for the topic's callback, or for a node
		other  bool          // another process sets it
		ago    time.Duration // its action time
		within time.Duration
	}{
		{"behind those that wait for the topic's, set by the node itself", true, false, 0, 2 * time.Second},
		{"behind those that wait for the topic's", true, true, 0, 20 * time.Second},
		{"before those that nobody serves", false, true, time.Hour, 20 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r, engine, caller := withHosts(t, timeout.Config{})
				caller.set("host/a", errRefused)
				if c.served {
					r.calls("a", "host/a")
				}
				r.many("a", 1200, "")
				pass(30 * time.Second)
				setter := r.Center
				if c.other {
					var err error
					setter, err = timeout.New(engine, timeout.Config{})
					require.NoError(t, err)
					defer setter.Close()
				}
				_, err := setter.Set(t.Context(), timeout.Task{Topic: "a", ID: "own", Due: time.Now().Add(-c.ago), Callback: &timeout.Callback{Kind: "fake", Target: "other/b"}})
				require.NoError(t, err)
				pass(c.within)
				require.Equal(t, 1, caller.count("other/b"))
			})
		})
	}
}

func TestTheTrialOfAnOpenCircuitGoesRoundAmongTopicsAndTargets(t *testing.T) {
	for name, own := range map[string]bool{"callbacks of topics": false, "callbacks of tasks": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r, _, caller := withHosts(t, timeout.Config{})
				caller.set("host/bad", errors.New("answer 500"))
				topics := map[string]string{"bad": "host/bad", "worse": "host/bad", "good": "host/good"}
				for topic, target := range topics {
					if !own {
						r.calls(topic, target)
						topics[topic] = ""
					}
				}
				r.many("bad", 60, topics["bad"])
				r.many("worse", 60, topics["worse"])
				pass(time.Minute)
				require.Equal(t, []string{"fake host"}, r.OpenCircuits())
				r.many("good", 20, topics["good"])
				pass(2 * time.Minute)
				require.GreaterOrEqual(t, caller.count("host/good"), 3, "of twelve trials")
				require.GreaterOrEqual(t, caller.count("host/bad"), 10)
			})
		})
	}
}

// sticky is a Caller. Its target fails until it hangs, and hangs until it is well. Only a call that begins then is answered.
type sticky struct {
	targets
	state atomic.Int64
}

const (
	stickyFails = iota
	stickyHangs
	stickyWell
)

func (s *sticky) Call(ctx context.Context, _ timeout.Task, call timeout.Callback) error {
	s.mu.Lock()
	s.calls[call.Target]++
	s.mu.Unlock()
	switch s.state.Load() {
	case stickyFails:
		return errRefused
	case stickyHangs:
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

func TestATrialThatHangsHoldsUpTheNextOneForNoLongerThanTwiceTheWaitBefore(t *testing.T) {
	for name, own := range map[string]string{"callback of the topic": "", "callbacks of tasks": "sticky"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				caller := &sticky{targets: targets{calls: map[string]int{}}}
				r, _, _ := withHosts(t, timeout.Config{Callers: map[string]timeout.Caller{"fake": caller}, Topic: timeout.Topic{Timeout: time.Hour}})
				if own == "" {
					_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Timeout: time.Hour, Callback: &timeout.Callback{Kind: "fake", Target: "sticky"}})
					require.NoError(t, err)
				}
				r.many("orders", 50, own)
				pass(30 * time.Second)
				caller.state.Store(stickyHangs)
				before := caller.count("sticky")
				pass(50 * time.Second)
				require.Equal(t, []string{"fake sticky"}, r.OpenCircuits())
				trials := caller.count("sticky") - before
				require.InDelta(t, 3, trials, 1, "after ten seconds, twenty, forty")
				caller.state.Store(stickyWell)
				pass(90 * time.Second)
				require.Less(t, r.counts("orders").Pending, int64(15), "those that wait for a retry of their own")
				require.EqualValues(t, trials, r.counts("orders").Running)
				require.Empty(t, r.OpenCircuits())
			})
		})
	}
}

// Others need places, too.
func TestFewTrialsHangAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		caller := &sticky{targets: targets{calls: map[string]int{}}}
		r, _, _ := withHosts(t, timeout.Config{Callers: map[string]timeout.Caller{"fake": caller}, Topic: timeout.Topic{Timeout: time.Hour}})
		r.many("orders", 50, "sticky")
		pass(30 * time.Second)
		caller.state.Store(stickyHangs)
		before := caller.count("sticky")
		pass(30 * time.Minute)
		require.Equal(t, 4, caller.count("sticky")-before)
		pass(time.Hour)
		require.Greater(t, caller.count("sticky")-before, 4, "when one has ended")
	})
}

func TestTrialsThatHangAreNoMoreThanTheTopicHasPlaces(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		caller := &sticky{targets: targets{calls: map[string]int{}}}
		r, engine, _ := withHosts(t, timeout.Config{Callers: map[string]timeout.Caller{"fake": caller}})
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Concurrency: 3, Timeout: time.Hour, Callback: &timeout.Callback{Kind: "fake", Target: "sticky"}})
		require.NoError(t, err)
		r.many("orders", 50, "")
		pass(30 * time.Second)
		caller.state.Store(stickyHangs)
		before := caller.count("sticky")
		pass(time.Minute)
		require.Equal(t, 3, caller.count("sticky")-before)
		leased := engine.leased.Load()
		pass(time.Minute)
		require.LessOrEqual(t, engine.leased.Load()-leased, int64(2), "nothing is leased that has to wait")
		require.Equal(t, []string{"fake sticky"}, r.OpenCircuits())
	})
}

// The worker asks whether there is something for a trial, and does not do so again and again.
func TestATopicWithNothingForATrialIsNotAskedForItAllTheTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, engine, caller := withHosts(t, timeout.Config{})
		caller.set("host/bad", errors.New("answer 500"))
		for _, topic := range []string{"a", "b"} {
			r.calls(topic, "host/"+topic)
			r.many(topic, 1, "")
		}
		r.many("bad", 50, "host/bad")
		pass(time.Minute)
		require.Equal(t, 1, caller.count("host/a"))
		require.Equal(t, 1, caller.count("host/b"))
		require.Equal(t, []string{"fake host"}, r.OpenCircuits())
		asked := engine.asked.Load()
		pass(time.Minute)
		// Some 60 questions are polls, and 9 are for each task that was put off and comes back some times in a minute.
		require.Less(t, engine.asked.Load()-asked, int64(60+50*15))
		r.many("a", 1, "")
		r.many("b", 1, "")
		pass(time.Minute)
		require.Equal(t, 2, caller.count("host/a"))
		require.Equal(t, 2, caller.count("host/b"))
	})
}

func TestAnAnswerOfALivingTargetOpensNoCircuit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, _, caller := withHosts(t, timeout.Config{})
		caller.set("host/bad", timeout.Answered(errors.New("answer 404 Not Found")))
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "bad", Retries: 3, Callback: &timeout.Callback{Kind: "fake", Target: "host/bad"}})
		require.NoError(t, err)
		r.calls("good", "host/good")
		r.many("bad", 300, "")
		pass(time.Second)
		r.many("good", 200, "")
		pass(time.Second)
		require.Equal(t, 200, caller.count("host/good"))
		require.Empty(t, r.OpenCircuits())
		pass(time.Minute)
		require.Equal(t, 300*4, caller.count("host/bad"))
		require.EqualValues(t, 300, r.counts("bad").Dead)
		for _, s := range r.Stats() {
			require.Zero(t, s.Postponed, s.Topic)
		}
	})
}

// log keeps the lines of a Logger.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func TestWhatANodeHoldsForATargetThatItAloneCanNotReachIsRunByAnotherNode(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, engine, cut := withHosts(t, timeout.Config{Node: "cut off"})
		cut.set("host/a", errRefused)
		well := &hosts{calls: map[string]int{}}
		rigOn(t, engine, timeout.Config{Node: "well", All: true, Poll: time.Second, Callers: map[string]timeout.Caller{"fake": well}})
		r.calls("a", "host/a")
		pass(20 * time.Second)
		r.many("a", 300, "")
		pass(10 * time.Second)
		require.Greater(t, r.counts("a").Pending, int64(100), "the slots of the node that is cut off")
		pass(70 * time.Second) // two and a half leases
		require.Less(t, r.counts("a").Pending, int64(15), "its trials")
		require.Greater(t, well.count("host/a"), 285)
	})
}

const stranded = "due tasks that no node can run"

func TestATopicThatNobodyCanRunIsNotLeasedAndTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log := new(logged)
		r, engine, caller := withHosts(t, timeout.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
		r.many("typo", 1000, "")
		pass(time.Second)
		require.Empty(t, r.Unserved(), "a node may be about to come")
		pass(30 * time.Second)
		require.Equal(t, []string{"typo"}, r.Unserved())
		leased := engine.leased.Load()
		require.LessOrEqual(t, leased, int64(10), "the first task tells that the node can't run it; a few leases may come before it does")
		pass(10 * time.Minute)
		require.Equal(t, leased, engine.leased.Load())
		require.Equal(t, 1, log.count(stranded))
		require.Equal(t, 1, log.count("topic=typo"))
		require.Greater(t, r.counts("typo").Lag, 10*time.Minute)
		require.EqualValues(t, 1000, r.counts("typo").Due)

		r.calls("typo", "host/a")
		pass(10 * time.Second)
		require.Equal(t, 1000, caller.count("host/a"))
		require.Empty(t, r.Unserved())
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "typo"}) // it drops the callback
		require.NoError(t, err)
		pass(5 * time.Second)
		r.many("typo", 10, "")
		pass(30 * time.Second)
		require.Equal(t, []string{"typo"}, r.Unserved())
		require.Equal(t, 2, log.count(stranded))
		for i := range 10 {
			_, err := r.Remove(t.Context(), timeout.Key{Topic: "typo", ID: fmt.Sprint(i)})
			require.NoError(t, err)
		}
		pass(time.Minute)
		require.Empty(t, r.Unserved(), "nothing waits any more")
	})
}

func TestATopicOfTasksWithCallbacksOfTheirOwnIsServedBesideATaskWithoutOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, engine, caller := withHosts(t, timeout.Config{})
		for range 3 {
			r.many("hooks", 10, "host/a")
			pass(time.Minute)
			require.Empty(t, r.Unserved())
		}
		r.many("hooks", 100, "")
		pass(30 * time.Second)
		require.Equal(t, []string{"hooks"}, r.Unserved())
		for range 3 {
			r.many("hooks", 10, "host/a")
			pass(time.Minute)
			require.Equal(t, []string{"hooks"}, r.Unserved())
			require.Greater(t, r.counts("hooks").Lag, time.Minute)
		}
		leased := engine.leased.Load()
		pass(time.Minute)
		require.Less(t, engine.leased.Load()-leased, int64(60*60))
		require.Equal(t, 60, caller.count("host/a"))
		page, err := r.List(t.Context(), timeout.Query{Topic: "hooks", State: timeout.Pending, Limit: 1000})
		require.NoError(t, err)
		require.Len(t, page.Tasks, 100)
		for _, task := range page.Tasks {
			_, err := r.Remove(t.Context(), task.Key())
			require.NoError(t, err)
		}
		pass(10 * time.Minute)
		require.Empty(t, r.Unserved())
		require.Zero(t, r.counts("hooks").Lag)
	})
}

func TestANodeWithAHandlerGetsTheTasksThatOtherNodesCanNotRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log := new(logged)
		logger := slog.New(slog.NewTextHandler(log, nil))
		r, engine, caller := withHosts(t, timeout.Config{Node: "a", Logger: logger})
		other := rigOn(t, engine, timeout.Config{Node: "b", Logger: logger})
		ran := new(record)
		require.NoError(t, other.Handle("orders", func(_ context.Context, task timeout.Task) error { ran.add(task.ID); return nil }))
		pass(20 * time.Second)
		for i := range 64 { // in all slots
			r.set(fmt.Sprint(i), 0)
		}
		pass(5 * time.Second)
		require.Len(t, ran.all(), 64)
		r.many("hooks", 10, "host/a")
		pass(10 * time.Second)
		require.Equal(t, 10, caller.count("host/a"))
		pass(time.Minute)
		require.Empty(t, r.Unserved())
		require.Empty(t, other.Unserved())
		require.Zero(t, log.count(stranded))

		require.NoError(t, other.stop())
		r.set("late", 0)
		pass(time.Minute)
		require.Equal(t, []string{"orders"}, r.Unserved())
	})
}

func TestTheLeaderTellsOfATopicThatNoNodeServes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log := new(logged)
		r := newRig(t, timeout.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { return nil }))
		r.many("typo", 3, "")
		r.many("orders", 3, "")
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "pulled", Pull: true})
		require.NoError(t, err)
		r.many("pulled", 3, "")
		pass(time.Minute)
		require.Equal(t, []string{"typo"}, r.Unserved())
		require.Equal(t, 1, log.count(stranded))
		require.NoError(t, r.Pause(t.Context(), "typo"))
		pass(time.Minute)
		require.Empty(t, r.Unserved())
	})
}

func TestACallbackOfAKindThatANodeLacksIsLeftToOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, engine, caller := withHosts(t, timeout.Config{Node: "a"})
		other := rigOn(t, engine, timeout.Config{Node: "b", All: true, Callers: map[string]timeout.Caller{"else": caller}})
		pass(10 * time.Second)
		r.calls("a", "host/a")
		pass(10 * time.Second)
		r.many("a", 64, "")
		pass(5 * time.Second)
		require.Equal(t, 64, caller.count("host/a"))
		require.Empty(t, other.Unserved())
	})
}

func TestANodeTellsOfDueTasksWhoseOwnCallbacksItCanNotMake(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log := new(logged)
		r, engine, caller := withHosts(t, timeout.Config{Node: "a"})
		other := rigOn(t, engine, timeout.Config{Node: "b", Logger: slog.New(slog.NewTextHandler(log, nil))})
		require.NoError(t, other.Handle("orders", func(context.Context, timeout.Task) error { return nil }))
		pass(20 * time.Second)
		r.many("orders", 64, "host/a")
		pass(time.Minute)
		for range 2 {
			require.Equal(t, []string{"orders"}, other.Unserved())
			require.Greater(t, other.counts("orders").Lag, 30*time.Second)
			require.Equal(t, 1, log.count(stranded))
			pass(2 * time.Minute)
		}
		require.Zero(t, caller.count("host/a"))
		require.NoError(t, r.Pause(t.Context(), "orders"))
		pass(time.Minute)
		require.Empty(t, other.Unserved(), "nobody is to run them")

		require.NoError(t, other.stop())
		require.NoError(t, r.Resume(t.Context(), "orders"))
		pass(5 * time.Minute)
		require.Equal(t, 64, caller.count("host/a"), "the slots belong to a node with the Caller now")
		require.Empty(t, r.Unserved())
	})
}

func TestATaskWhoseOwnCallbackANodeWithTheHandlerCanNotMakeIsRefusedThereAndWarnedOfElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log := new(logged)
		r, engine, caller := withHosts(t, timeout.Config{Node: "a", Logger: slog.New(slog.NewTextHandler(log, nil))})
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "pulled", Pull: true})
		require.NoError(t, err)
		bare := rigOn(t, engine, timeout.Config{Node: "b"})
		able := rigOn(t, engine, timeout.Config{Node: "c", Callers: map[string]timeout.Caller{"fake": caller}})
		done := func(context.Context, timeout.Task) error { return nil }
		for _, topic := range []string{"orders", "pulled"} {
			require.NoError(t, bare.Handle(topic, done))
		}
		require.NoError(t, able.Handle("mails", done))
		pass(20 * time.Second)
		own := func(topic string) timeout.Task {
			return timeout.Task{Topic: topic, ID: "1", After: time.Hour, Callback: &timeout.Callback{Kind: "fake", Target: "host/a"}}
		}
		_, err = bare.Set(t.Context(), own("orders"))
		require.ErrorIs(t, err, timeout.ErrArgument)
		require.ErrorContains(t, err, `callback of kind "fake" of a task on topic orders`)
		_, err = bare.SetAll(t.Context(), []timeout.Task{own("hooks"), own("orders")})
		require.ErrorIs(t, err, timeout.ErrArgument)
		for _, topic := range []string{"hooks", "mails", "pulled"} {
			_, err = bare.Set(t.Context(), own(topic))
			require.NoError(t, err, topic)
			_, err = r.Set(t.Context(), own(topic))
			require.NoError(t, err, topic)
		}
		const warned = "a node with a handler for its topic has no Callers"
		require.Zero(t, log.count(warned))
		for range 3 {
			_, err = r.Set(t.Context(), own("orders"))
			require.NoError(t, err)
			_, err = r.SetAll(t.Context(), []timeout.Task{own("hooks"), own("orders")})
			require.NoError(t, err)
		}
		require.Equal(t, 1, log.count(warned))
		require.Equal(t, 1, log.count("topic=orders node=b"))

		require.NoError(t, bare.stop())
		pass(20 * time.Second)
		_, err = r.Set(t.Context(), own("orders"))
		require.NoError(t, err)
		require.Equal(t, 1, log.count(warned))
	})
}

// Each of ever new URLs of a host fails once. The others of the host have their share of the trials: those of another
// topic, those that were well before, and those that came first.
func TestEverNewTargetsThatFailLeaveTrialsToTheOthersOfTheirHost(t *testing.T) {
	for name, test := range map[string]struct {
		topic  string
		before bool // the good one is called before the others
		others int  // failing ones that come first
	}{
		"of another topic":                       {topic: "good", others: 100},
		"that were well before":                  {topic: "bad", before: true, others: 100},
		"of another topic, and were well before": {topic: "good", before: true, others: 100},
		"that came first":                        {topic: "bad", others: 5},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r, _, caller := withHosts(t, timeout.Config{})
				caller.mu.Lock()
				caller.fails = "host/bad"
				caller.mu.Unlock()
				good := func(i int) {
					_, err := r.Set(t.Context(), timeout.Task{Topic: test.topic, ID: fmt.Sprint("good", i), Callback: &timeout.Callback{Kind: "fake", Target: "host/good"}})
					require.NoError(t, err)
				}
				if test.before {
					good(0)
					pass(time.Second)
					require.Equal(t, 1, caller.count("host/good"))
				}
				bad := 0
				bads := func(n int) {
					for range n {
						bad++
						r.many("bad", 1, fmt.Sprint("host/bad/", bad))
					}
				}
				bads(test.others)
				pass(30 * time.Second)
				require.Equal(t, []string{"fake host"}, r.OpenCircuits())
				before := caller.count("host/good")
				for i := range 120 {
					if i < 20 {
						good(1 + i)
					}
					bads(2)
					pass(2 * time.Second)
				}
				require.GreaterOrEqual(t, caller.count("host/good")-before, 6, "of twenty-four trials, and %d others", bad)
			})
		})
	}
}
