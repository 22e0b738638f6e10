package sharded_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/sharded"
)

// slow is a shard with answers that take time: the way there, and the way back.
type slow struct {
	shaky
	there, back atomic.Int64
	settle      atomic.Int64 // more on the way there, with outcomes
	asks        atomic.Int64 // calls of Lease
}

func (s *slow) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	s.asks.Add(1)
	time.Sleep(time.Duration(s.there.Load()))
	if len(ask.Settle) > 0 {
		time.Sleep(time.Duration(s.settle.Load()))
	}
	batch, err := s.shaky.Lease(ctx, ask)
	time.Sleep(time.Duration(s.back.Load()))
	return batch, err
}

// slowRig is a rig over some slow shards.
type slowRig struct {
	t      *testing.T
	engine engine.Engine
	shards []*slow
}

func slowBubble(t *testing.T, shards int, f func(r *slowRig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &slowRig{t: t}
		var engines []engine.Engine
		for range shards {
			s := &slow{shaky: shaky{Engine: inMemory(t)}}
			r.shards = append(r.shards, s)
			engines = append(engines, s)
		}
		r.engine = overWith(t, sharded.Config{Logger: silent}, engines...)
		f(r)
	})
}

// over makes a center over an engine that runs until the end of the test.
func (r *slowRig) center(e engine.Engine, cfg timeout.Config) *timeout.Center {
	cfg.Logger = silent
	c, err := timeout.New(e, cfg)
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(r.t.Context())
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	r.t.Cleanup(func() {
		for _, s := range r.shards {
			s.is.Store(well)
			s.there.Store(0)
			s.back.Store(0)
		}
		cancel()
		require.NoError(r.t, <-ran)
		require.NoError(r.t, c.Close())
	})
	return c
}

func setTask(t *testing.T, c *timeout.Center, id string, after time.Duration) {
	t.Helper()
	_, err := c.Set(t.Context(), engine.Task{Topic: "orders", ID: id, After: after})
	require.NoError(t, err)
}

// setDue sets tasks that are due now.
func setDue(t *testing.T, c *timeout.Center, ids ...[]string) {
	t.Helper()
	var tasks []engine.Task
	for _, id := range slices.Concat(ids...) {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: id})
	}
	_, err := c.SetAll(t.Context(), tasks)
	require.NoError(t, err)
}

// warm makes a first Pull, so that the dispatcher knows the parts.
func warm(t *testing.T, c *timeout.Center) {
	t.Helper()
	leased, err := c.Pull(t.Context(), timeout.Pull{Topic: "orders", Wait: time.Second})
	require.NoError(t, err)
	require.Empty(t, leased)
}

// The first Pull of a topic on a node finds what is due.
func TestTheFirstPullFindsWhatIsDue(t *testing.T) {
	slowBubble(t, 3, func(r *slowRig) {
		t := r.t
		c := r.center(r.engine, timeout.Config{})
		for n := range 20 {
			topic := fmt.Sprint("orders-", n)
			_, err := c.SetTopic(t.Context(), engine.Topic{Name: topic, Pull: true})
			require.NoError(t, err)
			_, err = c.Set(t.Context(), engine.Task{Topic: topic, ID: "1"})
			require.NoError(t, err)
			pass(time.Minute)
			leased, err := c.Pull(t.Context(), timeout.Pull{Topic: topic})
			require.NoError(t, err)
			require.Len(t, leased, 1, "topic %d", n)
		}
	})
}

// A Pull without Wait for as many tasks as Topic.Rate allows now gets those that are due.
func TestAPullWithoutWaitGetsWhatTheRateAllows(t *testing.T) {
	for _, most := range []int{1, 5, 10, 100} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			slowBubble(t, 3, func(r *slowRig) {
				t := r.t
				c := r.center(r.engine, timeout.Config{})
				_, err := c.SetTopic(t.Context(), engine.Topic{Name: "orders", Pull: true, Rate: 100}) // a burst of 10
				require.NoError(t, err)
				warm(t, c)
				setDue(t, c, ids("orders", 3, 10)...)
				for _, s := range r.shards {
					s.there.Store(int64(time.Millisecond)) // an answer takes a millisecond
				}
				pass(time.Minute)
				leased, err := c.Pull(t.Context(), timeout.Pull{Topic: "orders", Max: most})
				require.NoError(t, err)
				require.NotEmpty(t, leased, "30 tasks are due, and 10 may begin")
			})
		})
	}
}

// A part that hangs does not use the rate up.
func TestAPullWithARateDoesNotWaitForAShardThatHangs(t *testing.T) {
	slowBubble(t, 3, func(r *slowRig) {
		t := r.t
		c := r.center(r.engine, timeout.Config{})
		_, err := c.SetTopic(t.Context(), engine.Topic{Name: "orders", Pull: true, Rate: 1})
		require.NoError(t, err)
		set := ids("orders", 3, 5)
		setDue(t, c, set...)
		pass(time.Minute)
		r.shards[0].is.Store(hanging)
		r.shards[1].is.Store(hanging)
		var longest time.Duration
		for range 2 {
			began := time.Now()
			leased, err := c.Pull(t.Context(), timeout.Pull{Topic: "orders", Wait: time.Minute})
			require.NoError(t, err)
			require.NotEmpty(t, leased)
			longest = max(longest, time.Since(began))
			time.Sleep(2 * time.Second)
		}
		require.Less(t, longest, 1500*time.Millisecond, "the third shard has tasks, and answers at once")
	})
}

// Without any answer there is an error, since nobody knows.
func TestAPullWhileAllShardsHangIsAnError(t *testing.T) {
	slowBubble(t, 3, func(r *slowRig) {
		t := r.t
		c := r.center(r.engine, timeout.Config{})
		_, err := c.SetTopic(t.Context(), engine.Topic{Name: "orders", Pull: true})
		require.NoError(t, err)
		warm(t, c)
		setDue(t, c, ids("orders", 3, 5)...)
		pass(time.Minute)
		for _, s := range r.shards {
			s.is.Store(hanging)
		}
		leased, err := c.Pull(t.Context(), timeout.Pull{Topic: "orders"})
		require.Empty(t, leased)
		require.Error(t, err)
	})
}

// The same, while two refuse and the third hangs.
func TestAPullWhileTwoShardsRefuseAndOneHangsIsAnError(t *testing.T) {
	slowBubble(t, 3, func(r *slowRig) {
		t := r.t
		c := r.center(r.engine, timeout.Config{})
		_, err := c.SetTopic(t.Context(), engine.Topic{Name: "orders", Pull: true})
		require.NoError(t, err)
		warm(t, c)
		setDue(t, c, ids("orders", 3, 5)...)
		pass(time.Minute)
		r.shards[0].is.Store(refusing)
		r.shards[1].is.Store(refusing)
		r.shards[2].is.Store(hanging)
		leased, err := c.Pull(t.Context(), timeout.Pull{Topic: "orders"})
		require.Empty(t, leased)
		require.Error(t, err)
	})
}

// A look that another Pull has begun is no answer until it ends.
func TestAPullWithAShortWaitGetsWhatALookFinds(t *testing.T) {
	slowBubble(t, 1, func(r *slowRig) {
		t := r.t
		c := r.center(r.engine, timeout.Config{Poll: time.Second})
		_, err := c.SetTopic(t.Context(), engine.Topic{Name: "orders", Pull: true})
		require.NoError(t, err)
		set := ids("orders", 1, 2)[0]
		pass(time.Minute)
		r.shards[0].there.Store(int64(200 * time.Millisecond))
		first := make(chan int, 1)
		go func() {
			leased, _ := c.Pull(t.Context(), timeout.Pull{Topic: "orders", Wait: time.Minute})
			first <- len(leased)
		}()
		time.Sleep(50 * time.Millisecond)
		for _, id := range set {
			_, err := r.shards[0].Engine.Set(t.Context(), []engine.Task{{Topic: "orders", ID: id}}) // by another process
			require.NoError(t, err)
		}
		leased, err := c.Pull(t.Context(), timeout.Pull{Topic: "orders", Wait: 50 * time.Millisecond})
		require.NoError(t, err)
		require.NotEmpty(t, leased, "two tasks are due, for two requests")
		require.Equal(t, 1, <-first)
	})
}

// What one request can't take is there for the other.
func TestAPullGetsWhatAnotherLeaves(t *testing.T) {
	slowBubble(t, 3, func(r *slowRig) {
		t := r.t
		c := r.center(r.engine, timeout.Config{})
		_, err := c.SetTopic(t.Context(), engine.Topic{Name: "orders", Pull: true, Lease: time.Hour})
		require.NoError(t, err)
		pass(time.Minute)
		for _, s := range r.shards {
			s.there.Store(int64(20 * time.Millisecond))
			s.settle.Store(int64(100 * time.Millisecond))
		}
		set := ids("orders", 3, 1)
		ctx, cancel := context.WithCancel(t.Context())
		quit := make(chan error, 1)
		go func() {
			_, err := c.Pull(ctx, timeout.Pull{Topic: "orders", Lease: time.Minute, Wait: time.Hour})
			quit <- err
		}()
		pass(time.Second)
		setTask(t, c, set[0][0], 0) // the dispatcher asks for it now
		time.Sleep(time.Millisecond)
		cancel()
		require.Error(t, <-quit)
		leased, err := c.Pull(t.Context(), timeout.Pull{Topic: "orders", Lease: 2 * time.Minute})
		require.NoError(t, err)
		require.NotEmpty(t, leased, "it is due")
	})
}

// member sends heartbeats for a node that does nothing, as one that hangs.
func (r *slowRig) member(name string) {
	ctx := r.t.Context()
	heartbeat := func() {
		_, err := r.engine.(engine.Members).Heartbeat(ctx, engine.Node{Name: name, Topics: []string{"orders"}}, 10*time.Second)
		if ctx.Err() == nil {
			require.NoError(r.t, err)
		}
	}
	heartbeat()
	go func() {
		for ctx.Err() == nil {
			select {
			case <-time.After(time.Second):
				heartbeat()
			case <-ctx.Done():
			}
		}
	}()
}

// A node without slots in a part of the engine rescues what is late there.
func TestANodeRescuesInPartsWithoutASlotOfItsOwn(t *testing.T) {
	for _, c := range []struct{ shards, slots int }{{1, 1}, {2, 1}, {2, 2}, {4, 4}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			slowBubble(t, c.shards, func(r *slowRig) {
				t := r.t
				_, err := r.engine.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: c.slots, Lease: time.Second}, false)
				require.NoError(t, err)
				for n := range 5 {
					r.member(fmt.Sprint("hangs-", n))
				}
				node := r.center(r.engine, timeout.Config{Node: "works"})
				var ran atomic.Int64
				require.NoError(t, node.Handle("orders", func(context.Context, engine.Task) error {
					ran.Add(1)
					return nil
				}))
				pass(30 * time.Second)
				t.Log(node.Stats()[0].Slots, "slots of its own")
				var tasks []engine.Task
				for n := range 100 {
					tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(n)})
				}
				_, err = r.engine.Set(t.Context(), tasks) // by another node
				require.NoError(t, err)
				pass(5 * time.Minute)
				require.EqualValues(t, 100, ran.Load())
			})
		})
	}
}

// A shard with a backlog goes away. What others leave undone in the other shards is rescued.
func TestARescueWhileAShardWithABacklogIsAway(t *testing.T) {
	slowBubble(t, 3, func(r *slowRig) {
		t := r.t
		_, err := r.engine.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 8, Lease: time.Second, Concurrency: 4}, false)
		require.NoError(t, err)
		r.member("hangs")
		node := r.center(r.engine, timeout.Config{Node: "works"})
		var mu sync.Mutex
		ran := map[string]int{}
		require.NoError(t, node.Handle("orders", func(_ context.Context, task engine.Task) error {
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			ran[task.ID]++
			return nil
		}))
		pass(30 * time.Second)
		own := node.Stats()[0].Slots
		require.Len(t, own, 4)
		var backlog, foreign []engine.Task
		for n := 0; len(backlog) < 2000 || len(foreign) < 20; n++ {
			task := engine.Task{Topic: "orders", ID: fmt.Sprint(n)}
			mine := slices.Contains(own, engine.Slot(task.ID, 8))
			switch index := sharded.ShardOf(task.Key(), 3); {
			case mine && index == 1:
				backlog = append(backlog, task)
			case !mine && index == 2 && len(foreign) < 20:
				foreign = append(foreign, task)
			}
		}
		_, err = r.engine.Set(t.Context(), backlog)
		require.NoError(t, err)
		pass(500 * time.Millisecond)
		r.shards[1].is.Store(refusing)
		_, err = r.engine.Set(t.Context(), foreign)
		require.NoError(t, err)
		pass(5 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for _, task := range foreign {
			require.Equal(t, 1, ran[task.ID])
		}
	})
}

// unknown is an engine that does not know its parts at first.
type unknown struct {
	engine.Engine
	known atomic.Bool
	whole atomic.Int64 // asks of all parts, after that
}

func (u *unknown) Parts(topic string, slots []int) []int {
	if u.known.Load() {
		return u.Engine.(engine.Parted).Parts(topic, slots)
	}
	return []int{0}
}

func (u *unknown) Part(key engine.Key) int {
	if u.known.Load() {
		return u.Engine.(engine.Parted).Part(key)
	}
	return 0
}

func (u *unknown) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	if u.known.Load() && ask.Part == 0 && ask.Max > 0 {
		u.whole.Add(1)
	}
	batch, err := u.Engine.Lease(ctx, ask)
	u.known.Store(true)
	return batch, err
}

// The first answer, of all parts together, was a backlog.
func TestARescueAfterABacklogOfUnknownParts(t *testing.T) {
	slowBubble(t, 3, func(r *slowRig) {
		t := r.t
		_, err := r.engine.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 8, Lease: time.Second, Concurrency: 4}, false)
		require.NoError(t, err)
		r.member("hangs")
		u := &unknown{Engine: r.engine}
		var tasks []engine.Task
		for n := range 1000 {
			tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(n)})
		}
		_, err = r.engine.Set(t.Context(), tasks)
		require.NoError(t, err)
		node := r.center(u, timeout.Config{Node: "works"})
		var ran atomic.Int64
		require.NoError(t, node.Handle("orders", func(context.Context, engine.Task) error {
			time.Sleep(time.Millisecond)
			ran.Add(1)
			return nil
		}))
		pass(10 * time.Minute)
		require.EqualValues(t, 1000, ran.Load())
		require.Zero(t, u.whole.Load(), "the parts are known")
	})
}

// Many in a second: a part that was slow does not make the node begin more than Topic.Rate.
func TestRateHoldsWhileAShardIsSlow(t *testing.T) {
	slowBubble(t, 3, func(r *slowRig) {
		t := r.t
		c := r.center(r.engine, timeout.Config{})
		_, err := c.SetTopic(t.Context(), engine.Topic{Name: "orders", Rate: 100}) // a burst of 10
		require.NoError(t, err)
		var mu sync.Mutex
		var begun []time.Time
		require.NoError(t, c.Handle("orders", func(context.Context, engine.Task) error {
			mu.Lock()
			defer mu.Unlock()
			begun = append(begun, time.Now())
			return nil
		}))
		setDue(t, c, ids("orders", 3, 1000)...)
		r.shards[0].back.Store(int64(2 * time.Second))
		pass(20 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		most := 0
		for i := range begun {
			n := 0
			for _, at := range begun[i:] {
				if at.Sub(begun[i]) < 100*time.Millisecond {
					n++
				}
			}
			most = max(most, n)
		}
		require.LessOrEqual(t, most, 20+1, "a burst, and as many in a tenth of a second")
		require.Greater(t, len(begun), 1800)
	})
}

// While one part hangs, a Pull gets what the others have.
func TestAPullIsNotLateWhileAShardHangs(t *testing.T) {
	for name, trouble := range troubles {
		for _, most := range []int{1, 100} {
			for _, wait := range []time.Duration{0, time.Minute} {
				t.Run(fmt.Sprint(name, "/", most, "/", wait), func(t *testing.T) {
					slowBubble(t, 3, func(r *slowRig) {
						t := r.t
						c := r.center(r.engine, timeout.Config{})
						_, err := c.SetTopic(t.Context(), engine.Topic{Name: "orders", Pull: true, Lease: time.Hour})
						require.NoError(t, err)
						warm(t, c)
						set := ids("orders", 3, 50)
						setDue(t, c, set...)
						pass(time.Minute)
						r.shards[0].is.Store(trouble)
						var longest time.Duration
						got := map[string]int{}
						for len(got) < 100 {
							began := time.Now()
							leased, err := c.Pull(t.Context(), timeout.Pull{Topic: "orders", Max: most, Wait: wait})
							require.NoError(t, err)
							require.NotEmpty(t, leased, "after %d", len(got))
							longest = max(longest, time.Since(began))
							for _, one := range leased {
								got[one.ID]++
								require.Equal(t, 1, got[one.ID])
								require.Equal(t, 1, one.Attempts)
							}
						}
						require.LessOrEqual(t, longest, 300*time.Millisecond)
						began := time.Now()
						_, err = c.Pull(t.Context(), timeout.Pull{Topic: "orders", Max: most})
						require.NoError(t, err)
						require.LessOrEqual(t, time.Since(began), 3*time.Second)
					})
				})
			}
		}
	}
}

// A rescue asks each part by itself, too, and leaves out the number from before the parts were known.
func TestARescueDoesNotWaitForAShardThatHangs(t *testing.T) {
	slowBubble(t, 3, func(r *slowRig) {
		t := r.t
		_, err := r.engine.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 8, Lease: time.Second}, false)
		require.NoError(t, err)
		r.member("hangs")
		u := &unknown{Engine: r.engine}
		node := r.center(u, timeout.Config{Node: "works"})
		var mu sync.Mutex
		attempts := map[string]int{}
		require.NoError(t, node.Handle("orders", func(_ context.Context, task engine.Task) error {
			mu.Lock()
			defer mu.Unlock()
			attempts[task.ID] = task.Attempts
			return nil
		}))
		pass(30 * time.Second)
		own := node.Stats()[0].Slots
		r.shards[1].back.Store(int64(4900 * time.Millisecond))
		foreign := 0
		for n := 0; n < 3000; n++ {
			task := engine.Task{Topic: "orders", ID: fmt.Sprint(n)}
			if !slices.Contains(own, engine.Slot(task.ID, 8)) && sharded.ShardOf(task.Key(), 3) == 2 {
				_, err = r.engine.Set(t.Context(), []engine.Task{task})
				require.NoError(t, err)
				foreign++
				time.Sleep(50 * time.Millisecond)
			}
		}
		pass(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, attempts, foreign)
		again := 0
		for _, n := range attempts {
			if n > 1 {
				again++
			}
		}
		require.Zero(t, again, "attempts that were lost since the answer came late, of %d tasks", foreign)
		require.Zero(t, u.whole.Load(), "asks of all parts")
	})
}

// More than a burst never begins at once.
func TestABurstHoldsWhileAShardIsSlow(t *testing.T) {
	slowBubble(t, 3, func(r *slowRig) {
		t := r.t
		c := r.center(r.engine, timeout.Config{})
		_, err := c.SetTopic(t.Context(), engine.Topic{Name: "orders", Rate: 100}) // a burst of 10
		require.NoError(t, err)
		var mu sync.Mutex
		begun := map[time.Time]int{}
		require.NoError(t, c.Handle("orders", func(context.Context, engine.Task) error {
			mu.Lock()
			defer mu.Unlock()
			begun[time.Now()]++
			return nil
		}))
		setDue(t, c, ids("orders", 3, 1000)...)
		for _, s := range r.shards {
			s.back.Store(int64(300 * time.Millisecond))
		}
		pass(20 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		most, all := 0, 0
		for _, n := range begun {
			most, all = max(most, n), all+n
		}
		t.Log(all, "begun in 20 s, at most", most, "at once")
		require.LessOrEqual(t, most, 10+1)
	})
}

// hangs is a target whose calls hang for a while and fail, but for some.
type hangs struct {
	mu        sync.Mutex
	now, most int
	all       int
	took      time.Duration
	well      bool
}

func (h *hangs) Check(engine.Callback) error         { return nil }
func (h *hangs) Circuit(call engine.Callback) string { return "fake " + call.Target }
func (h *hangs) Call(ctx context.Context, _ engine.Task, _ engine.Callback) error {
	h.mu.Lock()
	h.now++
	h.all++
	h.most = max(h.most, h.now)
	took, well := h.took, h.well
	h.mu.Unlock()
	if took > 0 { // see rig.handle
		select {
		case <-time.After(took):
		case <-ctx.Done():
		}
	}
	h.mu.Lock()
	h.now--
	h.mu.Unlock()
	if well {
		return nil
	}
	return errRefused
}

// An open circuit gets one call at a time, whatever the parts of the engine do. When the target is well, all tasks run.
func TestACircuitIsTriedOnOneShardAtATime(t *testing.T) {
	for name, ail := range map[string]func(r *slowRig){
		"hanging": func(r *slowRig) { r.shards[1].is.Store(hanging) },
		"slow":    func(r *slowRig) { r.shards[1].there.Store(int64(300 * time.Millisecond)) },
		"slowall": func(r *slowRig) {
			for _, s := range r.shards {
				s.there.Store(int64(150 * time.Millisecond))
				s.back.Store(int64(150 * time.Millisecond))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			slowBubble(t, 3, func(r *slowRig) {
				t := r.t
				target := &hangs{took: 10 * time.Millisecond}
				c := r.center(r.engine, timeout.Config{All: true, Circuit: 5, CircuitWait: 5 * time.Second, Callers: map[string]timeout.Caller{"fake": target}})
				for n := range 3 {
					topic := fmt.Sprint("orders-", n)
					_, err := c.SetTopic(t.Context(), engine.Topic{Name: topic, Backoff: time.Second, BackoffMax: time.Second, Callback: &engine.Callback{Kind: "fake", Target: "it"}})
					require.NoError(t, err)
					for i := range 100 {
						_, err := c.Set(t.Context(), engine.Task{Topic: topic, ID: fmt.Sprint(i)})
						require.NoError(t, err)
					}
				}
				pass(20 * time.Second)
				require.NotEmpty(t, c.OpenCircuits())
				ail(r)
				pass(20 * time.Second)
				target.mu.Lock()
				target.most = 0
				before := target.all
				target.took = 4 * time.Second
				target.mu.Unlock()
				pass(5 * time.Minute)
				target.mu.Lock()
				t.Logf("%s: %d trials in 5 min, at most %d at a time", name, target.all-before, target.most)
				require.LessOrEqual(t, target.most, 1)
				require.GreaterOrEqual(t, target.all-before, 30, "trials go on")
				target.well, target.took = true, 0
				target.mu.Unlock()
				var returned uint64
				for _, s := range c.Stats() {
					returned += s.Returned + s.Postponed
				}
				t.Log(returned, "handed back")
				for _, s := range r.shards {
					s.is.Store(well)
					s.there.Store(0)
					s.back.Store(0)
				}
				pass(3 * time.Minute)
				left := int64(0)
				for n := range 3 {
					counts, err := c.Count(t.Context(), fmt.Sprint("orders-", n))
					require.NoError(t, err)
					left += counts.Pending + counts.Running + counts.Dead
				}
				require.Zero(t, left)
			})
		})
	}
}

// Whatever shards do, each task runs once, on time or later, and no node holds on to anything in the end.
func TestEachTaskRunsOnceWhateverShardsDo(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			slowBubble(t, 3, func(r *slowRig) {
				t := r.t
				random := rand.New(rand.NewPCG(seed, 1))
				topic := engine.Topic{Name: "orders", Slots: 8, Lease: time.Hour, Concurrency: 1 + int(seed%3)*7}
				switch seed % 4 {
				case 1:
					topic.Rate = 50
				case 2:
					topic.GlobalConcurrency = 16
				case 3:
					topic.GlobalRate = 60
				}
				_, err := r.engine.SetTopic(t.Context(), topic, false)
				require.NoError(t, err)
				var mu sync.Mutex
				ran := map[string]int{}
				early, running, most := 0, 0, 0
				for _, node := range []string{"a", "b"} {
					c := r.center(r.engine, timeout.Config{Node: node, Concurrency: int(seed%2) * 4})
					require.NoError(t, c.Handle("orders", func(_ context.Context, task engine.Task) error {
						mu.Lock()
						ran[task.ID]++
						running++
						most = max(most, running)
						if time.Now().Before(task.Due) {
							early++
						}
						mu.Unlock()
						time.Sleep(20 * time.Millisecond)
						mu.Lock()
						defer mu.Unlock()
						running--
						return nil
					}))
				}
				pass(25 * time.Second)
				var tasks []engine.Task
				for n := range 1500 {
					tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(n), After: time.Duration(random.IntN(60_000)) * time.Millisecond})
				}
				_, err = r.engine.Set(t.Context(), tasks)
				require.NoError(t, err)
				for range 60 {
					s := r.shards[random.IntN(3)]
					s.is.Store([]int32{well, well, refusing, hanging, stubborn, stuck, frozen, paused}[random.IntN(8)])
					s.there.Store(int64([]time.Duration{0, 0, time.Millisecond, 300 * time.Millisecond}[random.IntN(4)]))
					s.back.Store(int64([]time.Duration{0, 0, time.Millisecond, 300 * time.Millisecond}[random.IntN(4)]))
					pass(time.Duration(random.IntN(4000)) * time.Millisecond)
				}
				for _, s := range r.shards {
					s.is.Store(well)
					s.there.Store(0)
					s.back.Store(0)
				}
				pass(5 * time.Minute)
				mu.Lock()
				defer mu.Unlock()
				require.Zero(t, early)
				lost, twice := 0, 0
				for _, task := range tasks {
					if ran[task.ID] == 0 {
						lost++
					}
					if ran[task.ID] > 1 {
						twice++
					}
				}
				counts, err := r.engine.Count(t.Context(), "orders")
				require.NoError(t, err)
				t.Logf("%d did not run, %d ran twice, at most %d at a time, %+v", lost, twice, most, counts)
				require.Zero(t, lost)
				require.Zero(t, twice)
				require.Zero(t, counts.Pending+counts.Running)
				if topic.GlobalConcurrency > 0 {
					require.LessOrEqual(t, most, topic.GlobalConcurrency)
				}
				require.LessOrEqual(t, most, 2*topic.Concurrency)
			})
		})
	}
}

// Run ends in a while, whatever hangs.
func TestRunEndsWhileShardsHang(t *testing.T) {
	for name, trouble := range troubles {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "/", all), func(t *testing.T) {
				slowBubble(t, 3, func(r *slowRig) {
					t := r.t
					c, err := timeout.New(r.engine, timeout.Config{Logger: silent, Grace: time.Second})
					require.NoError(t, err)
					ctx, cancel := context.WithCancel(t.Context())
					ran := make(chan error, 1)
					go func() { ran <- c.Run(ctx) }()
					require.NoError(t, c.Handle("orders", func(context.Context, engine.Task) error {
						time.Sleep(100 * time.Millisecond)
						return nil
					}))
					pass(5 * time.Second)
					setDue(t, c, ids("orders", 3, 1000)...)
					pass(300 * time.Millisecond)
					for n, s := range r.shards {
						if all || n == 1 {
							s.is.Store(trouble)
						}
					}
					time.Sleep(time.Second)
					began := time.Now()
					cancel()
					<-ran
					took := time.Since(began)
					require.NoError(t, c.Close())
					t.Log(t.Name(), took, "and Close", time.Since(began))
					require.LessOrEqual(t, time.Since(began), 40*time.Second)
				})
			})
		}
	}
}

// Whatever shards do, callers of Pull get each task once, and a Pull without Wait is not empty while all shards are well and
// have due tasks.
func TestPullsGetEachTaskOnceWhateverShardsDo(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			slowBubble(t, 3, func(r *slowRig) {
				t := r.t
				random := rand.New(rand.NewPCG(seed, 2))
				c := r.center(r.engine, timeout.Config{})
				_, err := c.SetTopic(t.Context(), engine.Topic{Name: "orders", Pull: true, Lease: time.Hour})
				require.NoError(t, err)
				warm(t, c)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var mu sync.Mutex
				got := map[string]int{}
				var errs int
				var pulling sync.WaitGroup
				for n := range 6 {
					pulling.Go(func() {
						for ctx.Err() == nil {
							leased, err := c.Pull(ctx, timeout.Pull{
								Topic: "orders", Max: []int{1, 100}[n%2], Wait: []time.Duration{0, time.Second, time.Minute}[n%3], Lease: time.Hour + time.Duration(n%2)*time.Minute,
							})
							mu.Lock()
							if err != nil && ctx.Err() == nil {
								errs++
							}
							for _, one := range leased {
								got[one.ID]++
							}
							mu.Unlock()
							for _, one := range leased {
								pulling.Go(func() {
									for ctx.Err() == nil {
										if _, err := c.Feedback(ctx, one.Token, nil); err == nil {
											return
										}
										time.Sleep(100 * time.Millisecond)
									}
								})
							}
							time.Sleep(10 * time.Millisecond)
						}
					})
				}
				var tasks []engine.Task
				for n := range 600 {
					tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(n), After: time.Duration(random.IntN(60_000)) * time.Millisecond})
				}
				_, err = r.engine.Set(t.Context(), tasks)
				require.NoError(t, err)
				for range 40 {
					s := r.shards[random.IntN(3)]
					s.is.Store([]int32{well, well, refusing, hanging}[random.IntN(4)])
					s.there.Store(int64([]time.Duration{0, 0, time.Millisecond, 300 * time.Millisecond}[random.IntN(4)]))
					s.back.Store(int64([]time.Duration{0, 0, time.Millisecond, 300 * time.Millisecond}[random.IntN(4)]))
					pass(time.Duration(random.IntN(4000)) * time.Millisecond)
				}
				for _, s := range r.shards {
					s.is.Store(well)
					s.there.Store(0)
					s.back.Store(0)
				}
				pass(2 * time.Minute)
				counts, err := r.engine.Count(t.Context(), "orders")
				require.NoError(t, err)
				stop()
				pulling.Wait()
				mu.Lock()
				defer mu.Unlock()
				twice := 0
				for _, n := range got {
					if n > 1 {
						twice++
					}
				}
				t.Logf("%d of %d, %d twice, %d errors, %+v", len(got), len(tasks), twice, errs, counts)
				require.Len(t, got, len(tasks))
				require.Zero(t, twice)
				require.Zero(t, counts.Pending+counts.Running)
			})
		})
	}
}

// moving is an engine whose parts have other numbers every few seconds.
type moving struct {
	engine.Engine
	by atomic.Int64
}

func (m *moving) Parts(topic string, slots []int) (parts []int) {
	for _, part := range m.Engine.(engine.Parted).Parts(topic, slots) {
		parts = append(parts, part+3*int(m.by.Load()))
	}
	return parts
}

func (m *moving) Part(key engine.Key) int {
	return m.Engine.(engine.Parted).Part(key) + 3*int(m.by.Load())
}

func (m *moving) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	if ask.Part > 0 {
		if (ask.Part-1)/3 != int(m.by.Load()) { // it has no slots any more
			ask.Max = 0
		}
		ask.Part = (ask.Part-1)%3 + 1
	}
	return m.Engine.Lease(ctx, ask)
}

func (m *moving) Peek(context.Context, []engine.Peek) ([]time.Duration, error) {
	return nil, engine.ErrUnsupported
}

// Parts come and go. Tasks run on time, or a little later, once each.
func TestPartsThatMove(t *testing.T) {
	slowBubble(t, 3, func(r *slowRig) {
		t := r.t
		m := &moving{Engine: r.engine}
		c := r.center(m, timeout.Config{})
		_, err := c.SetTopic(t.Context(), engine.Topic{Name: "orders", Lease: time.Hour, Concurrency: 8})
		require.NoError(t, err)
		var mu sync.Mutex
		ran := map[string]int{}
		var latest time.Duration
		require.NoError(t, c.Handle("orders", func(_ context.Context, task engine.Task) error {
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			ran[task.ID]++
			latest = max(latest, time.Since(task.Due))
			return nil
		}))
		pass(5 * time.Second)
		tasks := make([]engine.Task, 6000)
		for n := range tasks {
			tasks[n] = engine.Task{Topic: "orders", ID: fmt.Sprint(n), After: time.Second + time.Duration(n)*10*time.Millisecond}
		}
		_, err = c.SetAll(t.Context(), tasks)
		require.NoError(t, err)
		for range 30 {
			pass(2300 * time.Millisecond)
			m.by.Add(1)
		}
		pass(time.Minute)
		counts, err := c.Count(t.Context(), "orders")
		require.NoError(t, err)
		require.Zero(t, counts.Pending+counts.Running)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, ran, 6000)
		for id, n := range ran {
			require.Equal(t, 1, n, id)
		}
		t.Log("at most", latest, "late")
		require.LessOrEqual(t, latest, 2500*time.Millisecond)
	})
}
