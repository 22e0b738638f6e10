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
		select {
		case <-time.After(d):
		case <-ctx.Done():
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

// nodes are running centres of one topic, on one engine.
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
	pass(10 * time.Second)
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

func (silent) Beat(context.Context, engine.Node, time.Duration) (engine.View, error) {
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

// severed are members that a node can be cut off from.
type severed struct {
	engine.Members
	off atomic.Bool
}

func (s *severed) Beat(ctx context.Context, node engine.Node, ttl time.Duration) (engine.View, error) {
	if s.off.Load() {
		return engine.View{}, errors.New("severed")
	}
	return s.Members.Beat(ctx, node, ttl)
}

// A node that can't reach the members keeps its slots, while another one has them, too. That is good for
// its tasks. But it would double a limit for all nodes, so then it gets none.
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
