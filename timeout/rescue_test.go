package timeout_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// two returns two nodes of one topic. The handler of the first one hangs until free is closed.
func two(t *testing.T, topic timeout.Topic, free <-chan struct{}) (hangs, works *rig, ran *record) {
	engine, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	hangs = rigOn(t, engine, timeout.Config{Node: "hangs", Topic: topic})
	require.NoError(t, hangs.Handle("orders", func(context.Context, timeout.Task) error {
		<-free
		return nil
	}))
	works, ran = rigOn(t, engine, timeout.Config{Node: "works", Topic: topic}), new(record)
	require.NoError(t, works.Handle("orders", func(_ context.Context, task timeout.Task) error {
		ran.add(task.ID)
		return nil
	}))
	pass(20 * time.Second) // limits for all nodes need more than a TTL
	require.Len(t, hangs.stats().Slots, 4)
	require.Len(t, works.stats().Slots, 4)
	return hangs, works, ran
}

// The first node goes on with its heartbeats and keeps its slots. Only the tasks in its handlers wait.
func TestWhatANodeThatHangsHasIsRunByAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		free := make(chan struct{})
		hangs, works, ran := two(t, timeout.Topic{Concurrency: 4, Lease: time.Second}, free)
		for i := range 100 {
			works.set(fmt.Sprint(i), time.Second)
		}
		pass(2 * time.Second)
		before := len(ran.all())
		require.Less(t, before, 80, "the others belong to the one that hangs")
		pass(30 * time.Second)
		require.Len(t, ran.all(), 96)
		require.Len(t, works.View().Nodes, 2)
		require.EqualValues(t, 96-before, works.stats().Rescued)
		require.Zero(t, hangs.stats().Queued)
		require.Zero(t, works.stats().Early)

		close(free)
		pass(time.Second)
		for i := range 100 {
			works.set(fmt.Sprint("later-", i), time.Second)
		}
		pass(2 * time.Second)
		require.Greater(t, hangs.stats().Done, uint64(14), "it takes part again")
		require.EqualValues(t, 200, hangs.stats().Done+works.stats().Done)
	})
}

// A node that has something to settle all the time, and free places, looks for late tasks all the same.
func TestWhatANodeThatHangsHasIsRunByOneUnderLoad(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		slow, hang := newShaky(t), make(chan struct{})
		defer close(hang)
		topic := timeout.Topic{Concurrency: 4, Lease: time.Second}
		hangs := rigOn(t, slow.Engine, timeout.Config{Node: "hangs", Topic: topic})
		require.NoError(t, hangs.Handle("orders", func(context.Context, timeout.Task) error {
			<-hang
			return nil
		}))
		works := rigOn(t, slow, timeout.Config{Node: "works", Topic: topic})
		require.NoError(t, works.Handle("orders", func(context.Context, timeout.Task) error { return nil }))
		pass(10 * time.Second)
		slow.late.Store(int64(2 * time.Millisecond))
		own := works.stats().Slots
		require.Len(t, own, 4)
		isOwn := func(id string) bool { return slices.Contains(own, engine.Slot(id, 8)) }
		for i, late := 0, 0; late < 20; i++ {
			if id := fmt.Sprint(i); !isOwn(id) {
				hangs.set(id, 0)
				late++
			}
		}
		for i := range 10_000 {
			if id := fmt.Sprint(i); isOwn(id) {
				hangs.set(id, 0)
			}
			time.Sleep(time.Millisecond / 2)
		}
		require.EqualValues(t, 16, works.stats().Rescued)
		require.Zero(t, works.stats().Lost)
	})
}

// Tasks on time stay with the owners of their slots.
func TestWhatIsOnTimeIsLeftToItsNode(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		free := make(chan struct{})
		close(free)
		hangs, works, _ := two(t, timeout.Topic{Lease: time.Second}, free)
		for range 60 {
			for i := range 100 {
				works.set(fmt.Sprint(i), 500*time.Millisecond)
			}
			pass(time.Second)
		}
		require.Zero(t, works.stats().Rescued)
		require.Zero(t, hangs.stats().Rescued)
		require.Zero(t, hangs.stats().Returned)
	})
}

// With more nodes than slots, a node without any runs late tasks as well.
func TestANodeWithoutSlotsRunsWhatIsLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		free := make(chan struct{})
		defer close(free)
		engine, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = engine.Close() })
		var ran atomic.Int64
		var first atomic.Bool
		for _, name := range []string{"a", "b", "c"} {
			r := rigOn(t, engine, timeout.Config{Node: name, Topic: timeout.Topic{Slots: 1, Concurrency: 1, Lease: time.Second}})
			require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
				if first.CompareAndSwap(false, true) {
					<-free
				}
				ran.Add(1)
				return nil
			}))
			pass(10 * time.Second)
		}
		r := rigOn(t, engine, timeout.Config{Node: "setter"})
		for i := range 10 {
			r.set(fmt.Sprint(i), 0)
		}
		pass(time.Minute)
		require.EqualValues(t, 9, ran.Load())
	})
}

// A node loses its slots in the middle of a backlog, and still looks for late tasks.
func TestANodeThatLostItsSlotsWithABacklogRunsWhatIsLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		engine, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = engine.Close() })
		members := new(assigner)
		members.owner.Store("a")
		topic := timeout.Topic{Slots: 1, Concurrency: 1, Lease: time.Second}
		var ran atomic.Int64
		a := rigOn(t, engine, timeout.Config{Node: "a", Members: members, TTL: time.Second, Topic: topic})
		require.NoError(t, a.Handle("orders", func(context.Context, timeout.Task) error {
			time.Sleep(100 * time.Millisecond)
			ran.Add(1)
			return nil
		}))
		pass(time.Second)
		for i := range 100 {
			a.set(fmt.Sprint(i), 0)
		}
		pass(2 * time.Second)
		members.owner.Store("nobody that runs")
		pass(time.Minute)
		require.EqualValues(t, 100, ran.Load())
		require.NotZero(t, a.stats().Rescued)
	})
}

// assigner is a list of members. One node owns all slots.
type assigner struct {
	owner atomic.Value
}

func (m *assigner) Heartbeat(context.Context, engine.Node, time.Duration) (engine.View, error) {
	return engine.View{Nodes: []engine.Node{{Name: m.owner.Load().(string)}}}, nil
}

func (*assigner) Leave(context.Context, string) error { return nil }
