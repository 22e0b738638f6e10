package sharded_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// peekable is a shaky shard in memory with a Peek. Its leases last an hour.
type peekable struct{ *shaky }

func (p peekable) Peek(ctx context.Context, peeks []engine.Peek) ([]time.Duration, error) {
	return through(ctx, p.shaky, func() ([]time.Duration, error) {
		counts, err := p.Count(ctx, peeks[0].Topic)
		switch {
		case counts.Pending > 0:
			return []time.Duration{0}, err
		case counts.Running > 0:
			return []time.Duration{time.Hour}, err
		}
		return []time.Duration{engine.NothingDue}, err
	})
}

// A peek returns zero for a topic if one of its shards is away.
func TestAPeekLeavesToLeaseWhatAShardHides(t *testing.T) {
	first, second := &shaky{Engine: inMemory(t)}, &shaky{Engine: inMemory(t)}
	e := over(t, peekable{first}, peekable{second})
	peek := func() time.Duration {
		waits, err := e.(engine.Peeker).Peek(t.Context(), []engine.Peek{{Topic: "orders"}})
		require.NoError(t, err)
		return waits[0]
	}
	_, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
	require.NoError(t, err)
	require.Equal(t, engine.NothingDue, peek())

	id := ids("orders", 2, 1)[1][0]
	_, err = e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: id}})
	require.NoError(t, err)
	require.LessOrEqual(t, peek(), time.Duration(0))
	ask := engine.Ask{Topic: "orders", Node: "node", Max: 1, Lease: time.Hour}
	batch, err := e.Lease(t.Context(), ask)
	require.NoError(t, err)
	require.Len(t, batch.Leased, 1)
	require.LessOrEqual(t, peek(), time.Hour)
	require.Greater(t, peek(), time.Minute)

	second.is.Store(refusing)
	ask.Settle = []engine.Outcome{{Token: batch.Leased[0].Token, As: engine.Done}}
	_, err = e.Lease(t.Context(), ask)
	require.ErrorIs(t, err, engine.ErrPartial)
	require.Zero(t, peek(), "a shard is away")
	for index, part := range e.(engine.Parted).Parts("orders", nil) {
		waits, err := e.(engine.Peeker).Peek(t.Context(), []engine.Peek{{Topic: "orders", Part: part}})
		require.NoError(t, err)
		require.Equal(t, []time.Duration{engine.NothingDue, 0}[index], waits[0])
	}
	second.is.Store(well)
	require.Eventually(t, func() bool {
		batch, err = e.Lease(t.Context(), ask)
		return err == nil && peek() == engine.NothingDue
	}, time.Minute, time.Millisecond)
	require.Equal(t, []bool{true}, batch.Settled)
}
