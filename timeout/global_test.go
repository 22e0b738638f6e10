package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// gauge counts the handlers of all nodes.
type gauge struct {
	mu            sync.Mutex
	now, most, in int
}

func (g *gauge) handler(d time.Duration) timeout.Handler {
	return func(ctx context.Context, _ timeout.Task) error {
		g.mu.Lock()
		g.now++
		g.in++
		g.most = max(g.most, g.now)
		g.mu.Unlock()
		if d > 0 { // many timers of a bubble that fire at once on several processors crash Go 1.26's race detector
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
		}
		g.mu.Lock()
		g.now--
		g.mu.Unlock()
		return nil
	}
}

// take returns the most handlers at the same time and the number of calls since the last take.
func (g *gauge) take() (most, in int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	most, in = g.most, g.in
	g.most, g.in = g.now, 0
	return most, in
}

// nodes are running centers of one topic, on one engine.
func nodes(t *testing.T, topic timeout.Topic, handler timeout.Handler, names ...string) []*rig {
	t.Helper()
	store, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	var all []*rig
	for _, name := range names {
		r := rigOn(t, store, timeout.Config{Node: name, Topic: topic})
		require.NoError(t, r.Handle("orders", handler))
		all = append(all, r)
	}
	pass(20 * time.Second)
	return all
}

func (r *rig) setMany(n int) {
	r.t.Helper()
	tasks := make([]timeout.Task, n)
	for i := range tasks {
		tasks[i] = timeout.Task{Topic: "orders", ID: fmt.Sprint(i)}
	}
	_, err := r.SetAll(r.t.Context(), tasks)
	require.NoError(r.t, err)
}

func TestAllNodesTogetherKeepTheGlobalLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := new(gauge)
		all := nodes(t, timeout.Topic{GlobalConcurrency: 11}, g.handler(100*time.Millisecond), "a", "b", "c")
		all[0].setMany(4000)
		pass(5 * time.Second)
		most, in := g.take()
		require.Equal(t, 11, most)
		require.InDelta(t, 11*50, in, 30)

		// A node goes: those that stay have its part, after its handlers have ended.
		require.NoError(t, all[2].stop())
		pass(5 * time.Second)
		g.take()
		pass(5 * time.Second)
		most, in = g.take()
		require.Equal(t, 11, most)
		require.InDelta(t, 11*50, in, 30)

		// The limit shrinks while everything runs.
		_, err := all[0].SetTopic(t.Context(), timeout.Topic{Name: "orders", GlobalConcurrency: 8})
		require.NoError(t, err)
		pass(5 * time.Second)
		g.take()
		pass(5 * time.Second)
		most, _ = g.take()
		require.Equal(t, 8, most)
	})
}

func TestAllNodesTogetherKeepTheGlobalRate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := new(gauge)
		all := nodes(t, timeout.Topic{GlobalRate: 30}, g.handler(0), "a", "b", "c")
		all[0].setMany(2000)
		pass(10 * time.Second)
		_, in := g.take()
		require.InDelta(t, 300, in, 15)
		require.NoError(t, all[1].stop())
		pass(5 * time.Second)
		_, in = g.take()
		require.LessOrEqual(t, in, 155, "no burst for a node with more slots")
		pass(10 * time.Second)
		_, in = g.take()
		require.InDelta(t, 300, in, 15)
	})
}

// Handlers go on when their slots change hands: as many again as the limit can run, and no more.
func TestWhileSlotsChangeHandsAtMostTwiceTheLimitRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := new(gauge)
		all := nodes(t, timeout.Topic{GlobalConcurrency: 16}, g.handler(20*time.Second), "a")
		all[0].setMany(200)
		pass(time.Second)
		most, _ := g.take()
		require.Equal(t, 16, most)
		b := rigOn(t, all[0].engine, timeout.Config{Node: "b"})
		require.NoError(t, b.Handle("orders", g.handler(20*time.Second)))
		pass(15 * time.Second)
		most, _ = g.take()
		require.Equal(t, 24, most, "half of the slots, for now twice")
		pass(30 * time.Second)
		g.take()
		pass(30 * time.Second)
		most, _ = g.take()
		require.Equal(t, 16, most)
	})
}

// A node that runs another's late tasks does so on its own places.
func TestARescueKeepsTheGlobalLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		free := make(chan struct{})
		hangs, works, ran := two(t, timeout.Topic{GlobalConcurrency: 8, Lease: time.Second}, free)
		works.setMany(100)
		pass(time.Minute)
		require.Len(t, ran.all(), 96, "but the four that hang")
		require.Equal(t, 4, hangs.stats().Running)
		close(free)
	})
}

// silent are members that nobody can reach.
type silent struct{}

func (silent) Heartbeat(context.Context, engine.Node, time.Duration) (engine.View, error) {
	return engine.View{}, errors.New("silent")
}
func (silent) Leave(context.Context, string) error { return nil }

func TestATopicWithAGlobalLimitWaitsForAView(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := new(gauge)
		r := newRig(t, timeout.Config{Members: silent{}, TTL: time.Second})
		require.NoError(t, r.Handle("orders", g.handler(0)))
		r.set("1", 0)
		pass(5 * time.Second)
		_, in := g.take()
		require.Equal(t, 1, in, "without a limit each node serves all slots")
		for _, topic := range []timeout.Topic{{GlobalConcurrency: 8}, {GlobalRate: 100}} {
			topic.Name = "orders"
			_, err := r.SetTopic(t.Context(), topic)
			require.NoError(t, err)
			pass(time.Second)
			r.set("2", 0)
			pass(5 * time.Second)
			_, in = g.take()
			require.Zero(t, in)
			require.Zero(t, r.stats().Queued)
			_, err = r.SetTopic(t.Context(), timeout.Topic{Name: "orders"})
			require.NoError(t, err)
			pass(5 * time.Second)
			_, in = g.take()
			require.Equal(t, 1, in)
		}
	})
}

// What a node has leased ahead for slots that it loses must not wait for places that it no longer has.
func TestANodeThatLosesItsPartHandsBackWhatItHasNotBegun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		members := new(assigner)
		members.owner.Store("a")
		g := new(gauge)
		a := rigOn(t, store, timeout.Config{Node: "a", Members: members, TTL: time.Second, Topic: timeout.Topic{GlobalConcurrency: 8}})
		require.NoError(t, a.Handle("orders", g.handler(10*time.Second)))
		pass(time.Second)
		a.setMany(100)
		pass(time.Second)
		require.Equal(t, 8, a.stats().Running)
		ahead := a.stats().Queued // how many it leases ahead depends on how the sets came
		require.Positive(t, ahead)
		members.owner.Store("another")
		pass(time.Second)
		require.Equal(t, 8, a.stats().Running)
		require.Zero(t, a.stats().Queued)
		require.EqualValues(t, ahead, a.stats().Returned)
		pass(20 * time.Second)
		_, in := g.take()
		require.Equal(t, 8, in)
	})
}

// severed are members that a node can be cut off from: its heartbeats fail, or hang.
type severed struct {
	engine.Members
	off, hang atomic.Bool
}

func (s *severed) Heartbeat(ctx context.Context, node engine.Node, ttl time.Duration) (engine.View, error) {
	if s.hang.Load() {
		<-ctx.Done()
		return engine.View{}, context.Cause(ctx)
	}
	if s.off.Load() {
		return engine.View{}, errors.New("severed")
	}
	return s.Members.Heartbeat(ctx, node, ttl)
}

// A node that can't reach the members keeps its slots, while another one has them, too. That is good for
// its tasks. But it would double a limit for all nodes, so then it has no part of that.
func TestANodeWithAnOldViewGetsNothingOfATopicWithAGlobalLimit(t *testing.T) {
	for _, topic := range []timeout.Topic{{}, {GlobalConcurrency: 16}, {GlobalRate: 1000}} {
		inBubble(t, func(t *testing.T) {
			a, b := new(gauge), new(gauge)
			all := nodes(t, topic, b.handler(time.Second), "b")
			members := &severed{Members: all[0].engine}
			old := rigOn(t, all[0].engine, timeout.Config{Node: "a", Members: members})
			require.NoError(t, old.Handle("orders", a.handler(time.Second)))
			pass(10 * time.Second)
			require.NotEmpty(t, old.stats().Slots)
			members.off.Store(true)
			pass(time.Minute)
			require.NotEmpty(t, old.stats().Slots, "the last view is kept")
			require.Len(t, all[0].stats().Slots, engine.DefaultSlots)
			for i := range 200 { // not at once: the heir can lease so many before the other node looks
				old.set(fmt.Sprint(i), 0)
				if i%10 == 9 {
					pass(time.Second)
				}
			}
			pass(time.Minute)
			_, zombie := a.take()
			_, heir := b.take()
			require.Equal(t, 200, zombie+heir)
			require.Equal(t, topic.GlobalConcurrency == 0 && topic.GlobalRate == 0, zombie > 0)
		})
	}
}

// stopped is the engine of a node that can be stopped: its calls reach the engine when it goes on.
type stopped struct {
	engine.Engine
	on atomic.Pointer[chan struct{}]
}

func (s *stopped) stop(d time.Duration) {
	on := make(chan struct{})
	s.on.Store(&on)
	pass(d)
	s.on.Store(nil)
	close(on)
}

func (s *stopped) wait() {
	if on := s.on.Load(); on != nil {
		<-*on
	}
}

func (s *stopped) Topics(ctx context.Context) ([]timeout.Topic, error) {
	s.wait()
	return s.Engine.Topics(ctx)
}

func (s *stopped) Heartbeat(ctx context.Context, node engine.Node, ttl time.Duration) (engine.View, error) {
	s.wait()
	return s.Engine.Heartbeat(ctx, node, ttl)
}

func (s *stopped) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	s.wait()
	return s.Engine.Lease(ctx, ask)
}

func (s *stopped) Extend(ctx context.Context, tokens []timeout.Token, lease time.Duration) ([]bool, error) {
	s.wait()
	return s.Engine.Extend(ctx, tokens, lease)
}

// crew is nodes with a limit of 16 tasks of half a second, and more tasks than they can run. They come a second after each
// other, so their heartbeats are at different times, and no handler is under way when another node learns of a change.
type crew struct {
	*testing.T
	gauge
	kept  engine.Engine
	tasks int
}

const crewLimit, crewTask = 16, 500 * time.Millisecond

func newCrew(t *testing.T) *crew {
	kept, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = kept.Close() })
	return &crew{T: t, kept: kept}
}

func (c *crew) join(name string, e engine.Engine, members engine.Members) *rig {
	topic := timeout.Topic{GlobalConcurrency: crewLimit, Lease: time.Minute}
	r := rigOn(c.T, e, timeout.Config{Node: name, Members: members, Topic: topic})
	require.NoError(c, r.Handle("orders", c.handler(crewTask)))
	pass(time.Second)
	return r
}

func (c *crew) set(n int) {
	tasks := make([]timeout.Task, n)
	for i := range tasks {
		c.tasks++
		tasks[i] = timeout.Task{Topic: "orders", ID: fmt.Sprint(c.tasks)}
	}
	_, err := c.kept.Set(c.Context(), tasks)
	require.NoError(c, err)
}

// runs lets time pass. The limit holds, and at least so many tasks run at the same time all along.
func (c *crew) runs(d time.Duration, least int) {
	c.Helper()
	c.set(4 * crewLimit) // so that some always wait
	for ; d > 0; d -= time.Second {
		c.set(2 * crewLimit)
		pass(time.Second)
		most, _ := c.take()
		require.LessOrEqual(c, most, crewLimit)
		require.GreaterOrEqual(c, most, least)
	}
}

// Others count the node out after the TTL of 10 s. From then on it begins nothing, and they run all. Later it is a member
// again.
func TestTheGlobalLimitHoldsWhileTheHeartbeatsOfANodeFail(t *testing.T) {
	for _, away := range []time.Duration{5 * time.Second, 40 * time.Second} {
		for _, hang := range []bool{false, true} {
			inBubble(t, func(t *testing.T) {
				c := newCrew(t)
				members := &severed{Members: c.kept}
				a := c.join("a", c.kept, members)
				b := c.join("b", c.kept, nil)
				c.runs(15*time.Second, crewLimit/2)
				c.runs(5*time.Second, crewLimit)
				members.off.Store(!hang)
				members.hang.Store(hang)
				c.runs(away, crewLimit/2)
				runs := crewLimit / 2
				if away > time.Minute/2 {
					runs = 0
				}
				require.Equal(t, runs, a.stats().Running)
				require.Equal(t, crewLimit-runs, b.stats().Running)
				members.off.Store(false)
				members.hang.Store(false)
				c.runs(20*time.Second, crewLimit/2)
				c.runs(5*time.Second, crewLimit)
				require.Equal(t, crewLimit/2, a.stats().Running)
				require.Equal(t, crewLimit/2, b.stats().Running)
			})
		}
	}
}

// The node had asked for tasks before it was stopped. What it gets when it goes on is too late.
func TestTheGlobalLimitHoldsWhileANodeIsStopped(t *testing.T) {
	for _, d := range []time.Duration{5 * time.Second, 14 * time.Second, 40 * time.Second} {
		inBubble(t, func(t *testing.T) {
			c := newCrew(t)
			sleeps := &stopped{Engine: c.kept}
			a := c.join("a", sleeps, nil)
			c.join("b", c.kept, nil)
			c.runs(20*time.Second, crewLimit/2)
			c.set(2 * crewLimit * int(d/time.Second))
			sleeps.stop(d)
			most, _ := c.take()
			require.LessOrEqual(t, most, crewLimit)
			c.runs(20*time.Second, crewLimit/2)
			c.runs(5*time.Second, crewLimit)
			require.Equal(t, crewLimit/2, a.stats().Running)
		})
	}
}

// A node that hears nothing of it goes on with its old part for a TTL. The new node waits for that.
func TestTheGlobalLimitHoldsWhileNodesComeAndGo(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			c := newCrew(t)
			members := &severed{Members: c.kept}
			a := c.join("a", c.kept, members)
			c.runs(3*time.Second, crewLimit)
			members.hang.Store(deaf)
			b := c.join("b", c.kept, nil)
			c.runs(8*time.Second, crewLimit/2)
			members.hang.Store(false)
			c.runs(22*time.Second, 0)
			c.join("c", c.kept, nil)
			c.runs(20*time.Second, crewLimit/2)
			c.runs(5*time.Second, crewLimit)
			require.NoError(t, b.stop())
			c.runs(20*time.Second, crewLimit/2)
			c.runs(5*time.Second, crewLimit)
			require.NotZero(t, a.stats().Running)
		})
	}
}

// While the new node waits, the others run the tasks of its slots.
func TestTasksWithAGlobalLimitAreInTimeWhileANodeJoins(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCrew(t)
		a := c.join("a", c.kept, nil)
		a.set("first", 0)
		pass(time.Second)
		require.EqualValues(t, 1, a.stats().Done, "a node that is alone waits for nobody")
		b := c.join("b", c.kept, nil)
		for i := range 200 {
			a.set(fmt.Sprint(i), 0)
			pass(150 * time.Millisecond)
		}
		pass(5 * time.Second)
		require.EqualValues(t, 201, a.stats().Done+b.stats().Done)
		require.NotZero(t, b.stats().Done, "it takes part in the end")
		require.Less(t, max(a.stats().Late.Max, b.stats().Late.Max), time.Second)
	})
}

func TestTheGlobalRateHoldsWhileANodeJoins(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := new(gauge)
		a := nodes(t, timeout.Topic{GlobalRate: 30}, g.handler(0), "a")[0]
		a.setMany(2000)
		pass(5 * time.Second)
		g.take()
		b := rigOn(t, a.engine, timeout.Config{Node: "b"})
		require.NoError(t, b.Handle("orders", g.handler(0)))
		for range 20 {
			pass(time.Second)
			_, in := g.take()
			require.LessOrEqual(t, in, 33)
		}
		pass(10 * time.Second)
		_, in := g.take()
		require.InDelta(t, 300, in, 15)
	})
}

// late is an engine that answers late: a Lease after it has leased, the others before they ask.
type late struct {
	engine.Engine
	lease, rest time.Duration
}

func (l *late) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	batch, err := l.Engine.Lease(ctx, ask)
	time.Sleep(l.lease)
	return batch, err
}

func (l *late) Topics(ctx context.Context) ([]timeout.Topic, error) {
	time.Sleep(l.rest)
	return l.Engine.Topics(ctx)
}

func (l *late) Heartbeat(ctx context.Context, node engine.Node, ttl time.Duration) (engine.View, error) {
	select {
	case <-time.After(l.rest):
	case <-ctx.Done():
		return engine.View{}, ctx.Err()
	}
	return l.Engine.Heartbeat(ctx, node, ttl)
}

// What comes with the answer of such an ask goes back, and is run when the node has its part again.
func TestANodeWhosePartEndsDuringAnAskRunsAllLater(t *testing.T) {
	for off := time.Duration(0); off < time.Second; off += 200 * time.Millisecond {
		inBubble(t, func(t *testing.T) {
			kept, err := memory.New(memory.Config{})
			require.NoError(t, err)
			t.Cleanup(func() { _ = kept.Close() })
			members := &severed{Members: kept}
			a := rigOn(t, &late{Engine: kept, lease: 50 * time.Millisecond}, timeout.Config{Node: "a", Members: members, Topic: timeout.Topic{GlobalConcurrency: 16}})
			require.NoError(t, a.Handle("orders", func(context.Context, timeout.Task) error { return nil }))
			pass(time.Second + off)
			tasks := 0
			trickle := func(d time.Duration) {
				for ; d > 0; d -= 100 * time.Millisecond {
					tasks++
					a.set(fmt.Sprint(tasks), 0)
					pass(100 * time.Millisecond)
				}
			}
			trickle(5 * time.Second)
			members.off.Store(true)
			trickle(time.Minute)
			require.Zero(t, a.stats().Running)
			members.off.Store(false)
			trickle(10 * time.Second)
			pass(10 * time.Minute)
			require.EqualValues(t, tasks, a.stats().Done)
		})
	}
}

func TestANodeKeepsItsPartWhileEachAnswerTakesLong(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCrew(t)
		slow := &late{Engine: c.kept, rest: 4700 * time.Millisecond} // of a TTL of ten seconds
		c.join("a", slow, nil)
		c.join("b", slow, nil)
		pass(40 * time.Second)
		c.runs(30*time.Second, crewLimit)
	})
}

// The other node holds its view for as long as its own TTL.
func TestTheGlobalLimitHoldsBesideANodeWithALongerTTL(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCrew(t)
		topic := timeout.Topic{GlobalConcurrency: crewLimit, Lease: time.Minute}
		for _, node := range []timeout.Config{{Node: "a", TTL: time.Minute, Topic: topic}, {Node: "b", TTL: 3 * time.Second, Topic: topic}} {
			r := rigOn(t, c.kept, node)
			require.NoError(t, r.Handle("orders", c.handler(crewTask)))
			pass(time.Second)
			c.runs(25*time.Second, crewLimit/2)
		}
		c.runs(70*time.Second, crewLimit/2)
		c.runs(5*time.Second, crewLimit)
	})
}

// The heartbeats of a node fail when another one joins, and then the topic gets its limit.
func TestAGlobalLimitSetWhileANodeJoinsHolds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCrew(t)
		members := &severed{Members: c.kept}
		var all []*rig
		for _, cfg := range []timeout.Config{{Node: "b", Members: members}, {Node: "a"}} {
			cfg.Topic = timeout.Topic{Lease: time.Minute}
			r := rigOn(t, c.kept, cfg)
			require.NoError(t, r.Handle("orders", c.handler(crewTask)))
			all = append(all, r)
			pass(12 * time.Second)
			members.off.Store(true)
		}
		members.off.Store(false)
		pass(20 * time.Second)
		members.off.Store(true)
		require.NoError(t, all[1].stop())
		r := rigOn(t, c.kept, timeout.Config{Node: "c"})
		require.NoError(t, r.Handle("orders", c.handler(crewTask)))
		pass(time.Second)
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Lease: time.Minute, GlobalConcurrency: crewLimit})
		require.NoError(t, err)
		pass(5 * time.Second)
		c.runs(20*time.Second, 0)
		members.off.Store(false)
		c.runs(20*time.Second, 0)
		c.runs(5*time.Second, crewLimit)
	})
}

// While the node was away, another one had all slots for a time that it knows nothing of.
func TestANodeThatComesBackCountsNothingAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCrew(t)
		members := &severed{Members: c.kept}
		c.join("a", c.kept, members)
		b := c.join("b", c.kept, nil)
		x := c.join("c", c.kept, nil)
		c.runs(30*time.Second, 0)
		members.off.Store(true)
		c.runs(30*time.Second, crewLimit/3)
		require.NoError(t, x.stop())
		c.runs(10*time.Second, crewLimit/3)
		members.off.Store(false)
		c.runs(30*time.Second, crewLimit/3)
		require.NotZero(t, b.stats().Running)
	})
}
