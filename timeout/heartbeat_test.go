package timeout_test

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// headless is an engine with its topics on a hanging server.
type headless struct {
	engine.Engine
	hangs atomic.Bool
}

func (e *headless) Topics(ctx context.Context) ([]timeout.Topic, error) {
	if e.hangs.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return e.Engine.Topics(ctx)
}

func TestANodeStaysAMemberWhileTheTopicsCanNotBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		kept, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = kept.Close() })
		engine := &headless{Engine: kept}
		ran := new(record)
		a := rigOn(t, engine, timeout.Config{Node: "a"})
		require.NoError(t, a.Handle("orders", func(_ context.Context, task timeout.Task) error {
			ran.add(task.ID)
			return nil
		}))
		b := rigOn(t, kept, timeout.Config{Node: "b"})
		pass(5 * time.Second)
		engine.hangs.Store(true)
		for range 60 {
			pass(time.Second)
			require.Len(t, b.View().Nodes, 2)
		}
		b.set("1", 0)
		pass(time.Second)
		require.Equal(t, []string{"1"}, ran.all())
	})
}

// mute is an engine that hangs.
type mute struct {
	headless
	heartbeats []time.Duration // how long each one had hung at its end
}

func (e *mute) Heartbeat(ctx context.Context, node engine.Node, ttl time.Duration) (engine.View, error) {
	if !e.hangs.Load() {
		return e.Engine.Heartbeat(ctx, node, ttl)
	}
	began := time.Now()
	<-ctx.Done()
	e.heartbeats = append(e.heartbeats, time.Since(began))
	return engine.View{}, context.Cause(ctx)
}

// A heartbeat hardly waits for the topics, and has half of the TTL itself.
func TestAHeartbeatIsTriedAgainWithinTheTTL(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		kept, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = kept.Close() })
		engine, log := &mute{headless: headless{Engine: kept}}, new(logtest.Log)
		r := rigOn(t, engine, timeout.Config{TTL: 10 * time.Second, Logger: log.Logger(slog.LevelInfo)})
		pass(time.Second)
		engine.hangs.Store(true)
		pass(time.Minute)
		engine.hangs.Store(false)
		pass(10 * time.Second)
		require.NoError(t, r.stop())
		require.Equal(t, slices.Repeat([]time.Duration{5 * time.Second}, 12), engine.heartbeats)
		require.Len(t, log.Lines("topics can't be read"), 4)
		require.Len(t, log.Lines("members can't be reached"), 12)
	})
}

// withSilentMembers returns two nodes that have such members, and one engine.
func withSilentMembers(t *testing.T) (nodes []*rig, members *severed) {
	kept, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = kept.Close() })
	members = &severed{Members: kept}
	for _, name := range []string{"a", "b"} {
		nodes = append(nodes, rigOn(t, kept, timeout.Config{Node: name, Members: members}))
	}
	return nodes, members
}

// handleAt has nodes handle tasks by noting them.
func (r *record) handleAt(t *testing.T, nodes []*rig) {
	for _, node := range nodes {
		require.NoError(t, node.Handle("orders", func(_ context.Context, task timeout.Task) error {
			r.add(task.ID)
			return nil
		}))
	}
}

// The last view deals no slots of a topic that is newer than the view.
func TestANewTopicIsServedWhileTheMembersAreAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		nodes, members := withSilentMembers(t)
		ran := new(record)
		pass(10 * time.Second)
		require.Len(t, nodes[0].View().Nodes, 2)
		members.off.Store(true)
		ran.handleAt(t, nodes)
		nodes[0].set("1", 0)
		pass(10 * time.Second)
		require.Equal(t, []string{"1"}, ran.all())

		members.off.Store(false)
		pass(10 * time.Second)
		require.Len(t, nodes[0].stats().Slots, engine.DefaultSlots/2)
		require.Len(t, nodes[1].stats().Slots, engine.DefaultSlots/2)
	})
}

// The last view deals the slots of a topic that grows, too.
func TestATopicMayGrowWhileTheMembersAreAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		nodes, members := withSilentMembers(t)
		ran := new(record)
		ran.handleAt(t, nodes)
		pass(10 * time.Second)
		members.off.Store(true)
		const slots, tasks = 64, 200
		_, err := nodes[0].SetTopic(t.Context(), timeout.Topic{Name: "orders", Slots: slots})
		require.NoError(t, err)
		for i := range tasks {
			nodes[0].set(strconv.Itoa(i), 0)
		}
		pass(10 * time.Second)
		require.Len(t, ran.all(), tasks, "and not one lease later")
		require.Len(t, nodes[0].stats().Slots, slots/2)
		require.Len(t, nodes[1].stats().Slots, slots/2)
	})
}
