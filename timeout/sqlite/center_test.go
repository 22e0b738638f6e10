package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/index"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// runCenter runs a center until the test ends.
func runCenter(t *testing.T, e engine.Engine, handle timeout.Handler) *timeout.Center {
	center, err := timeout.New(e, timeout.Config{Poll: 20 * time.Millisecond, Topic: engine.Topic{Backoff: time.Millisecond, BackoffMax: time.Millisecond}})
	require.NoError(t, err)
	require.NoError(t, center.Handle("t", handle))
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- center.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		require.NoError(t, center.Close())
	})
	return center
}

func TestCentersRunWhatIsInTheFile(t *testing.T) {
	for _, indexed := range []bool{false, true} {
		t.Run(fmt.Sprintf("indexed=%v", indexed), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tasks.db")
			var mu sync.Mutex
			ran := map[string]int{}
			var early atomic.Int64
			handle := func(_ context.Context, task engine.Task) error {
				if time.Now().Before(task.Due) {
					early.Add(1)
				}
				mu.Lock()
				defer mu.Unlock()
				ran[task.ID]++
				if strings.HasSuffix(task.ID, "7") && task.Attempts == 1 {
					return errors.New("once more")
				}
				return nil
			}
			var centers []*timeout.Center
			for range 2 {
				var e engine.Engine = openEngine(t, path)
				if indexed {
					wheel, err := memory.New(memory.Config{})
					require.NoError(t, err)
					e, err = index.New(e.(engine.Primary), wheel, index.Config{Scan: 50 * time.Millisecond})
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, e.Close()) })
				}
				centers = append(centers, runCenter(t, e, handle))
			}
			const count = 1000
			for i := range count {
				after := time.Duration(rand.IntN(200)) * time.Millisecond
				go func() {
					if _, err := centers[i%2].Set(context.Background(), engine.Task{Topic: "t", ID: fmt.Sprint(i), After: after}); err != nil {
						t.Error(err)
					}
				}()
			}
			require.Eventually(t, func() bool {
				mu.Lock()
				got := len(ran)
				mu.Unlock()
				counts, err := centers[0].Count(context.Background(), "t")
				return err == nil && got == count && counts == engine.Counts{}
			}, time.Minute, 20*time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			for id, times := range ran {
				want := 1
				if strings.HasSuffix(id, "7") {
					want = 2
				}
				require.Equal(t, want, times, id)
			}
			require.Zero(t, early.Load())
		})
	}
}

func TestClaimLeasesWhatIsWantedAndDue(t *testing.T) {
	r := newRig(t, engine.Topic{Retries: -1})
	a := r.set(engine.Task{ID: "due"}, engine.Task{ID: "later", After: time.Hour}, engine.Task{ID: "newer"}, engine.Task{ID: "expired", Due: time.Unix(1, 0)})
	r.lease("expired", time.Millisecond)
	time.Sleep(5 * time.Millisecond)
	wanted := []engine.Wanted{
		{ID: "due", Version: a[0].Version},
		{ID: "later", Version: a[1].Version},
		{ID: "newer", Version: a[2].Version - 1},
		{ID: "missing", Version: 1},
		{ID: "due", Version: a[0].Version},
		{ID: "expired", Version: a[3].Version},
	}
	claimed, err := r.Claim(t.Context(), "t", "m", wanted, time.Minute)
	require.NoError(t, err)
	require.True(t, claimed[0].OK)
	require.Equal(t, "m", claimed[0].Leased.Node)
	require.Equal(t, a[1].Due.UnixMilli(), claimed[1].At.UnixMilli())
	require.Equal(t, []engine.Claimed{{}, {}}, claimed[2:4])
	require.False(t, claimed[4].OK)
	require.False(t, claimed[4].At.IsZero(), "it belongs to somebody")
	require.True(t, claimed[5].Leased.Again)
	require.Equal(t, 2, claimed[5].Leased.Attempts)
	require.Contains(t, claimed[5].Leased.Error, "ended in attempt 1")
	require.Equal(t, []bool{true}, r.settle(engine.Outcome{Token: claimed[0].Leased.Token, As: engine.Done}))
}

func TestAScanHasWhatWaitsAndRunsInTheOrderOfTime(t *testing.T) {
	r := newRig(t, engine.Topic{})
	for i := range 20 {
		r.set(engine.Task{ID: fmt.Sprint(i), Due: time.Unix(int64(1+i/3), 0)})
	}
	r.lease("0", 500*time.Millisecond)
	r.set(engine.Task{ID: "late", After: time.Hour})
	for _, slots := range [][]int{nil, {0, 3, 5}} {
		var want, got []string
		for i := range 20 {
			if id := fmt.Sprint(i); slots == nil || slices.Contains(slots, engine.Slot(id, engine.DefaultSlots)) {
				want = append(want, id)
			}
		}
		var last time.Time
		for cursor := ""; ; {
			page, err := r.ScanBefore(t.Context(), "t", slots, time.Now().Add(time.Minute), cursor, 3)
			require.NoError(t, err)
			for _, w := range page.Wanted {
				require.False(t, w.At.Before(last))
				require.Equal(t, r.get(w.ID).Version, w.Version)
				last = w.At
				got = append(got, w.ID)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		require.ElementsMatch(t, want, got)
	}
}

// TestItAnswersAsAnEngineInMemory does the same random steps with both engines.
func TestItAnswersAsAnEngineInMemory(t *testing.T) {
	for seed := range uint64(3) {
		r := newRig(t, engine.Topic{})
		model, err := memory.New(memory.Config{})
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(seed, 7))
		topic := engine.Topic{Name: "t", Retries: 1, Retain: time.Hour * time.Duration(seed%2)}
		engines := []engine.Engine{r.Engine, model}
		for _, e := range engines {
			_, err := e.SetTopic(t.Context(), topic, false)
			require.NoError(t, err)
		}
		held := map[string][2]engine.Token{}
		for step := range 150 {
			compare(t, engines, random, held, int64(step))
		}
		require.NoError(t, model.Close())
	}
}

// compare does one step with both engines. Due tasks have different times in the past. Other
// tasks are far in the future.
func compare(t *testing.T, engines []engine.Engine, random *rand.Rand, held map[string][2]engine.Token, step int64) {
	ctx := t.Context()
	var keys []engine.Key
	for range 1 + random.IntN(5) {
		keys = append(keys, key(fmt.Sprint(random.IntN(12))))
	}
	due := make([]time.Time, len(keys))
	absent := make([]bool, len(keys))
	for i := range due {
		due[i] = time.UnixMilli(step*100 + int64(i) + 1)
		if random.IntN(3) == 0 {
			due[i] = due[i].AddDate(200, 0, 0)
		}
		absent[i] = random.IntN(3) == 0
	}
	verb := random.IntN(6)
	ask := engine.Ask{Topic: "t", Node: "n", Lease: time.Hour, Max: random.IntN(4)}
	var settle []engine.Outcome
	for _, k := range keys {
		settle = append(settle, engine.Outcome{
			Token: engine.Token{Key: k}, As: engine.State(1 + 2*random.IntN(2) + random.IntN(2)), After: time.Hour, Release: random.IntN(4) == 0, Error: fmt.Sprint(step),
		})
		last := &settle[len(settle)-1]
		if last.As == engine.Running {
			last.As = engine.Dead
		}
		last.Release = last.Release && last.As == engine.Pending
	}
	var results [2]string
	for n, e := range engines {
		var answers []engine.Answer
		var err error
		text := ""
		switch verb {
		case 0, 1:
			var tasks []engine.Task
			for i, k := range keys {
				tasks = append(tasks, engine.Task{Topic: k.Topic, ID: k.ID, Due: due[i], IfAbsent: absent[i], Payload: []byte{byte(step)}})
			}
			answers, err = e.Set(ctx, tasks)
		case 2:
			var moves []engine.Move
			for i, k := range keys {
				moves = append(moves, engine.Move{Key: k, Due: due[i]})
			}
			answers, err = e.Move(ctx, moves)
		case 3:
			all := make([]engine.Removal, len(keys))
			for i, k := range keys {
				all[i].Key = k
			}
			answers, err = e.Remove(ctx, all)
		case 4:
			answers, err = e.Replay(ctx, keys[:1])
		case 5:
			for i, outcome := range settle {
				settle[i].Token = held[outcome.Token.ID][n]
				settle[i].Token.Key = outcome.Token.Key
			}
			ask.Settle = settle
			var batch engine.Batch
			batch, err = e.Lease(ctx, ask)
			text = fmt.Sprint(batch.Settled)
			for _, leased := range batch.Leased {
				both := held[leased.ID]
				both[n] = leased.Token
				held[leased.ID] = both
				text += fmt.Sprint(" ", leased.ID, leased.Attempts, string(leased.Payload), leased.Error)
			}
		}
		require.NoError(t, err)
		for _, a := range answers {
			text += fmt.Sprint(" ", a.Was, a.Version > 0, a.Err)
			if verb != 4 && !a.Due.IsZero() && a.Was != engine.Done && a.Was != engine.Removed {
				text += fmt.Sprint(a.Due.UnixMilli() > 0)
			}
		}
		for id := range 12 {
			tasks, err := e.Get(ctx, []engine.Key{key(fmt.Sprint(id))})
			require.NoError(t, err)
			task := tasks[0]
			text += fmt.Sprintf("\n%s %v %d %q %q %v", task.ID, task.State, task.Attempts, task.Error, task.Node, task.Payload)
		}
		counts, err := e.Count(ctx, "t")
		require.NoError(t, err)
		counts.Lag = 0
		results[n] = fmt.Sprintf("%d: %s %+v", verb, text, counts)
	}
	require.Equal(t, results[1], results[0])
}

// listen calls Wake to the end of the test. It returns the woken topics, and a function to wait for the next.
func (r *rig) listen() (woken chan string, next func() string) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	woken, ended := make(chan string, 1000), make(chan error)
	go func() { ended <- r.Wake(ctx, func(topic string) { woken <- topic }, func(engine.Key) {}) }()
	r.Cleanup(func() { cancel(); require.NoError(r, <-ended) })
	next = func() string {
		select {
		case topic := <-woken:
			return topic
		case <-time.After(time.Minute):
			require.Fail(r, "nobody was woken")
		}
		return ""
	}
	require.Empty(r, next())
	return woken, next
}

// A process hears of other processes' tasks and of their resumed topics, but not of their heartbeats.
func TestAProcessIsWokenByTasksAndNotByHeartbeats(t *testing.T) {
	r := newRig(t, engine.Topic{})
	other := openEngine(t, r.path)
	ctx := t.Context()
	woken, next := r.listen()
	for range 6 {
		require.NoError(t, other.Ready(ctx))
		_, err := other.Heartbeat(ctx, engine.Node{Name: "other"}, time.Minute)
		require.NoError(t, err)
		time.Sleep(300 * time.Millisecond) // time to see each heartbeat alone: else the test can pass by chance
	}
	require.Empty(t, woken)
	for _, change := range []func() error{
		func() error {
			_, err := other.Set(ctx, []engine.Task{{Topic: "t", ID: "x", After: time.Hour}})
			return err
		},
		func() error {
			_, err := other.Move(ctx, []engine.Move{{Key: key("x")}})
			return err
		},
		func() error {
			_, err := other.Pause(ctx, "t", false, time.Time{})
			return err
		},
	} {
		require.NoError(t, change())
		require.Equal(t, "t", next())
	}
}

// With a thousand topics, a thousand workers would look four times a second.
func TestAChangeOfOneTopicWakesNoOther(t *testing.T) {
	r := newRig(t, engine.Topic{})
	other := openEngine(t, r.path)
	var tasks []engine.Task
	for i := range 50 {
		_, err := r.SetTopic(t.Context(), engine.Topic{Name: fmt.Sprint("other-", i)}, true)
		require.NoError(t, err)
		tasks = append(tasks, engine.Task{Topic: fmt.Sprint("other-", i), ID: "x", After: time.Hour})
	}
	_, err := r.Set(t.Context(), tasks)
	require.NoError(t, err)
	woken, next := r.listen()
	due := time.Now().Add(2 * time.Hour)
	for _, task := range []engine.Task{
		{ID: "first", Due: due},
		{ID: "earlier", Due: due.Add(-time.Second)},
		{ID: "soon", After: time.Second},
		{ID: "behind it, and soon too", After: 2 * time.Second},
	} {
		task.Topic = "t"
		_, err := other.Set(t.Context(), []engine.Task{task})
		require.NoError(t, err)
		require.Equal(t, "t", next(), task.ID)
	}
	require.Empty(t, woken)
}
