package sharded_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/sharded"
)

// kept is an engine that stays open when somebody closes it.
type kept struct{ engine.Engine }

func (kept) Close() error { return nil }

// Opening a shard may bring large tables up to date. That takes longer than a call may, and is not begun anew
// each time.
func TestAShardThatTakesLongToOpenIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience, long = time.Second, 10 * time.Second
		shards := []engine.Engine{kept{inMemory(t)}, kept{inMemory(t)}}
		begun := 0
		open := func(takes time.Duration) engine.Engine {
			openers := make([]func(context.Context) (engine.Engine, error), len(shards))
			for i, shard := range shards {
				openers[i] = func(ctx context.Context) (engine.Engine, error) {
					if i == 0 || takes == 0 {
						return shard, nil
					}
					begun++
					select {
					case <-time.After(takes):
						return shard, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
			}
			e, err := sharded.Open(t.Context(), openers, sharded.Config{CallTimeout: patience, Logger: silent})
			require.NoError(t, err)
			return e
		}
		require.NoError(t, open(0).Close()) // the first time all shards must answer

		e := open(long)
		topic := engine.Topic{Name: "orders", Slots: engine.DefaultSlots}
		_, err := e.SetTopic(t.Context(), topic, false)
		require.Error(t, err, "a shard is away")
		pass(long)
		_, err = e.SetTopic(t.Context(), topic, false)
		require.NoError(t, err)
		require.Equal(t, 1, begun)
		require.NoError(t, e.Close())

		e = open(time.Hour)
		pass(time.Minute)
		require.NoError(t, e.Close(), "while a shard is being opened")
	})
}
