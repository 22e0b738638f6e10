package redis_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// pressure are callers of a center. Each sets new tasks one after the other, with a pause after each.
type pressure struct {
	center *timeout.Center
	stop   atomic.Bool
	all    sync.WaitGroup

	mu   sync.Mutex // guards what follows
	took []time.Duration
	errs []error
}

// join has callers set tasks with the wanted ids.
func (c *pressure) join(callers int, name string, wanted func(id string) bool) {
	for caller := range callers {
		c.all.Go(func() {
			for i := 0; !c.stop.Load(); i++ {
				id := fmt.Sprintf("%s-%d-%d", name, caller, i)
				if !wanted(id) {
					continue
				}
				began := time.Now()
				_, err := c.center.Set(ctx, engine.Task{Topic: "orders", ID: id, After: time.Hour})
				c.note(time.Since(began), err)
				time.Sleep(60 * time.Millisecond)
			}
		})
	}
}

func (c *pressure) note(took time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, took)
	if err != nil {
		c.errs = append(c.errs, err)
	}
}

// heard returns how long the calls since the last time took, and their errors.
func (c *pressure) heard() (took []time.Duration, errs []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took, errs = c.took, c.errs
	c.took, c.errs = nil, nil
	return took, errs
}

// end has callers make no more calls, and waits for them.
func (c *pressure) end() {
	c.stop.Store(true)
	c.all.Wait()
}

func percentile(took []time.Duration, share float64) time.Duration {
	slices.Sort(took)
	return took[int(float64(len(took)-1)*share)]
}

// Single calls are made in batches, of callers that know nothing of each other. A server that is
// away, or hangs, is a trouble of its own tasks and of no others.
func TestAServerOfAClusterThatIsAwayHoldsUpNoCallOfTheOthers(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		replicas int
		away     func(testing.TB, server)
		back     func(testing.TB, server)
	}{
		"killed":      {0, func(t testing.TB, s server) { s.Kill(t) }, func(t testing.TB, s server) { s.Restart(t) }},
		"stopped":     {0, func(t testing.TB, s server) { s.Pause(t) }, func(t testing.TB, s server) { s.Continue(t) }},
		"failed over": {1, func(t testing.TB, s server) { s.Pause(t) }, func(testing.TB, server) {}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := testserver.RedisCluster(t, 3, test.replicas, "--cluster-require-full-coverage", "no")
			const patience = 5 * time.Second // of the client with a server
			at := server{cluster.Nodes[0]}
			at.URL += "?read_timeout=" + patience.String()
			e := openEngine(t, at, redis.Config{})
			center, err := timeout.New(e, timeout.Config{})
			require.NoError(t, err)
			_, err = center.SetTopic(ctx, engine.Topic{Name: "orders", Slots: 16})
			require.NoError(t, err)
			victim, away := spare(t, cluster, e.Prefix())
			isAway := func(id string) bool { return away[engine.Slot(id, 16)] }

			others, own := &pressure{center: center}, &pressure{center: center}
			others.join(48, "others", func(id string) bool { return !isAway(id) })
			own.join(16, "own", isAway)
			time.Sleep(time.Second)
			took, errs := others.heard()
			require.Empty(t, errs)
			usual := percentile(took, 0.99)
			_, errs = own.heard()
			require.Empty(t, errs)

			if test.replicas > 0 {
				cluster.SuspectSoon(t)
			}
			test.away(t, victim)
			require.NoError(t, e.Ready(ctx), "there are others")
			time.Sleep(2 * patience)
			others.end()
			took, errs = others.heard()
			require.Empty(t, errs)
			t.Logf("p99 of %v before and %v of %d calls after, at most %v", usual, percentile(took, 0.99), len(took), slices.Max(took))
			require.Less(t, percentile(took, 0.99), usual+patience/2)
			require.Less(t, slices.Max(took), patience, "none has waited for it")

			if test.replicas == 0 {
				_, errs = own.heard()
				require.NotEmpty(t, errs, "they are not silent about it")
			}
			test.back(t, victim)
			assert.Eventually(t, func() bool {
				took, errs := own.heard()
				return len(took) > 0 && len(errs) == 0
			}, time.Minute, 200*time.Millisecond, "they are set again")
			own.end()
			require.NoError(t, center.Close())
		})
	}
}

// Of a call with many tasks, those on a server that is away have an error each, and the others are
// done.
func TestOfABatchEachTaskHasAnErrorOfItsOwn(t *testing.T) {
	t.Parallel()
	cluster := testserver.RedisCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	e := openEngine(t, server{cluster.Nodes[0]}, redis.Config{})
	center, err := timeout.New(e, timeout.Config{})
	require.NoError(t, err)
	_, err = center.SetTopic(ctx, engine.Topic{Name: "orders", Slots: 16, Retries: -1})
	require.NoError(t, err)
	victim, away := spare(t, cluster, e.Prefix())
	var tasks, lost []engine.Task
	var keys []engine.Key
	var moves []engine.Move
	var removals []engine.Removal
	for i := range 100 {
		id := fmt.Sprint(i % 90) // some twice
		tasks = append(tasks, engine.Task{Topic: "orders", ID: id})
		keys = append(keys, key(id))
		moves = append(moves, engine.Move{Key: key(id)})
		removals = append(removals, engine.Removal{Key: key(id)})
		if away[engine.Slot(id, 16)] {
			lost = append(lost, tasks[i])
		}
	}
	require.NotEmpty(t, lost)
	_, err = center.SetAll(ctx, tasks)
	require.NoError(t, err)
	var tokens []engine.Token
	for i := 0; len(tokens) < 90; i++ {
		require.Less(t, i, 1000)
		for _, leased := range leaseBatch(t, e, engine.Ask{Max: 100}).Leased {
			tokens = append(tokens, leased.Token)
		}
	}
	victim.Kill(t)

	each := func(want engine.State) func(answers []engine.Answer, err error) {
		return func(answers []engine.Answer, err error) {
			t.Helper()
			require.NoError(t, err)
			for i, answer := range answers {
				if away[engine.Slot(tasks[i].ID, 16)] {
					require.Error(t, answer.Err)
					require.Equal(t, engine.Answer{Err: answer.Err}, answer)
				} else {
					require.NoError(t, answer.Err)
					if i < 90 {
						require.Equal(t, want, answer.Was)
					}
				}
			}
		}
	}
	held, err := e.Extend(ctx, tokens, time.Minute)
	require.ErrorIs(t, err, engine.ErrPartial)
	for i, token := range tokens {
		require.Equal(t, !away[engine.Slot(token.ID, 16)], held[i])
	}
	each(engine.Running)(center.MoveAll(ctx, moves))
	each(engine.Running)(center.SetAll(ctx, tasks))
	each(engine.Pending)(center.MoveAll(ctx, moves))
	each(engine.Pending)(center.Replay(ctx, keys))
	found, err := center.GetAll(ctx, keys)
	require.ErrorIs(t, err, engine.ErrPartial)
	for i, task := range found {
		require.Equal(t, keys[i], task.Key())
		require.Equal(t, away[engine.Slot(task.ID, 16)], task.State == engine.None)
	}
	each(engine.Pending)(center.RemoveAll(ctx, removals))

	one := lost[0]
	_, err = center.Set(ctx, one)
	require.Error(t, err)
	_, err = center.Get(ctx, one.Key())
	require.Error(t, err)
	require.NotErrorIs(t, err, engine.ErrNotFound, "nobody knows")
	_, err = center.Remove(ctx, one.Key())
	require.Error(t, err)
	_, err = center.Feedback(ctx, engine.Token{Key: one.Key(), Lease: 1 << 20, Part: tokens[0].Part}, nil)
	require.Error(t, err)
	all := []engine.Task{one, one}
	_, err = center.SetAll(ctx, all)
	require.Error(t, err, "nothing is known of any")
	require.NoError(t, center.Close())
}
