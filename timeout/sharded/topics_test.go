package sharded_test

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
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

func (h *held) Pause(ctx context.Context, topic string, paused bool, until time.Time) (engine.Topic, error) {
	h.paused <- paused
	return h.Engine.Pause(ctx, topic, paused, until)
}

// A look at what a shard has missed may have begun before a pause.
func TestNothingResumesATopicAfterItsPause(t *testing.T) {
	shard := &held{Engine: inMemory(t), asked: make(chan struct{}), goes: make(chan struct{}), paused: make(chan bool, 10)}
	e := over(t, inMemory(t), shard)
	_, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
	require.NoError(t, err)
	shard.holds.Store(true)
	looked := make(chan error, 1)
	go func() { _, err := e.Maintain(t.Context()); looked <- err }()
	<-shard.asked
	_, err = e.Pause(t.Context(), "orders", true, time.Time{})
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
		require.True(t, topic.Paused || topic.Name == engine.Reserved)
	}
}

// telling is a shard that does something each time before it tells its topics to a call with a count in its context.
type telling struct {
	engine.Engine
	before func(call int)
}

type callsKey struct{}

func (s *telling) Topics(ctx context.Context) ([]engine.Topic, error) {
	if calls, ok := ctx.Value(callsKey{}).(*int); ok {
		*calls++
		s.before(*calls)
	}
	return s.Engine.Topics(ctx)
}

// A look at what a shard has missed may have begun before another topic was dropped.
func TestATopicMadeAnewDoesNotGetTheSlotsOfTheOneBefore(t *testing.T) {
	for _, most := range []int{0, 7} { // with the slots of the one before, seven places would be too few
		first := &telling{Engine: inMemory(t)}
		e := over(t, first, inMemory(t))
		_, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 1024}, false)
		require.NoError(t, err)
		var made engine.Topic
		calls := 0
		first.before = func(call int) {
			switch call {
			case 1: // the other shard has missed a topic
				_, err := first.SetTopic(t.Context(), engine.Topic{Name: "missed"}, false)
				require.NoError(t, err)
			case 2: // the other shard has told of the slots
				require.NoError(t, e.DropTopic(t.Context(), "orders"))
				made, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders", GlobalConcurrency: most}, true)
				require.NoError(t, err)
			}
		}
		_, err = e.SetTopic(context.WithValue(t.Context(), callsKey{}, &calls), engine.Topic{Name: "others"}, false)
		require.NoError(t, err)
		require.GreaterOrEqual(t, calls, 2)
		require.Less(t, made.Slots, 1024)
		topics, err := e.Topics(t.Context())
		require.NoError(t, err)
		require.Equal(t, made, topics[1])
	}
}

// rounding is a shard that keeps a rate in whole tasks.
type rounding struct{ engine.Engine }

func (r rounding) SetTopic(ctx context.Context, topic engine.Topic, onlyNew bool, was ...engine.Topic) (engine.Topic, error) {
	topic.Rate = math.Round(topic.Rate)
	return r.Engine.SetTopic(ctx, topic, onlyNew, was...)
}

func TestAShardMayKeepATopicInItsOwnWay(t *testing.T) {
	shard := rounding{inMemory(t)}
	e := over(t, inMemory(t), shard)
	for _, onlyNew := range []bool{true, false} {
		kept, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders", Rate: 1.2, Retries: 7}, onlyNew)
		require.NoError(t, err)
		require.InDelta(t, 1.2, kept.Rate, 0)
		there, err := shard.Topics(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 1, there[0].Rate+there[1].Rate, 0)
	}
}

func TestTheHighestMaxDeadStaysHigh(t *testing.T) {
	e := over(t, inMemory(t), inMemory(t), inMemory(t))
	kept, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders", MaxDead: math.MaxInt}, false)
	require.NoError(t, err)
	require.Greater(t, kept.MaxDead, math.MaxInt-3, "but for the rounding")
}

func TestEachShardKeepsAPartOfTheDead(t *testing.T) {
	const each, most, shards = 120, 20, 4
	for id, want := range map[string]int{"%d": most, "{all}%d": most / shards} {
		e := over(t, inMemory(t), inMemory(t), inMemory(t), inMemory(t))
		_, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders", MaxDead: most}, false)
		require.NoError(t, err)
		for i := range each {
			_, err = e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: fmt.Sprintf(id, i)}})
			require.NoError(t, err)
		}
		settled := 0
		var outcomes []engine.Outcome
		require.Eventually(t, func() bool {
			batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Max: each, Lease: time.Hour, Settle: outcomes})
			require.NoError(t, err)
			settled, outcomes = settled+len(outcomes), nil
			for _, leased := range batch.Leased {
				outcomes = append(outcomes, engine.Outcome{Token: leased.Token, As: engine.Dead})
			}
			return settled == each
		}, time.Minute, time.Millisecond)
		purged, err := e.Maintain(t.Context())
		require.NoError(t, err)
		require.Equal(t, each-want, purged.Dead["orders"])
		counted, err := e.Count(t.Context(), "orders")
		require.NoError(t, err)
		require.EqualValues(t, want, counted.Dead, id)
	}
}
