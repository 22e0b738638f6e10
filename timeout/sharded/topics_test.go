package sharded_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/sharded"
)

// held is a shard that once waits before it tells its topics.
type held struct {
	engine.Engine
	holds       atomic.Bool
	asked, goes chan struct{}
	paused      chan bool // each change of that
}

func (h *held) Topics(ctx context.Context) ([]engine.Topic, error) {
	if h.holds.CompareAndSwap(true, false) {
		close(h.asked)
		<-h.goes
	}
	return h.Engine.Topics(ctx)
}

func (h *held) Pause(ctx context.Context, topic string, paused bool) (engine.Topic, error) {
	h.paused <- paused
	return h.Engine.Pause(ctx, topic, paused)
}

// A look at what a shard has missed may have begun before a pause.
func TestNothingResumesATopicAfterItsPause(t *testing.T) {
	shard := &held{Engine: inMemory(t), asked: make(chan struct{}), goes: make(chan struct{}), paused: make(chan bool, 10)}
	e := over(t, inMemory(t), shard)
	_, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
	require.NoError(t, err)
	shard.holds.Store(true)
	looked := make(chan error, 1)
	go func() { _, err := e.Upkeep(t.Context(), 0); looked <- err }()
	<-shard.asked
	_, err = e.Pause(t.Context(), "orders", true)
	require.NoError(t, err)
	close(shard.goes)
	require.NoError(t, <-looked)
	close(shard.paused)
	for paused := range shard.paused {
		require.True(t, paused)
	}
	topics, err := shard.Engine.Topics(t.Context())
	require.NoError(t, err)
	for _, topic := range topics {
		require.True(t, topic.Paused || topic.Name == sharded.Reserved)
	}
}

func TestTheHighestMaxDeadStaysHigh(t *testing.T) {
	e := over(t, inMemory(t), inMemory(t), inMemory(t))
	kept, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders", MaxDead: math.MaxInt}, false)
	require.NoError(t, err)
	require.Greater(t, kept.MaxDead, math.MaxInt-3, "but for the rounding")
}
