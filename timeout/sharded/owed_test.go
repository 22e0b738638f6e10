package sharded_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// oneEach sets a due task for each shard, and returns their ids.
func (r *rig) oneEach() (all []string) {
	_, err := r.SetTopic(r.t.Context(), engine.Topic{Name: "orders"})
	require.NoError(r.t, err)
	for _, some := range ids("orders", 3, 1) {
		require.NoError(r.t, r.set(some[0], 0))
		all = append(all, some...)
	}
	return all
}

// leaseOneEach leases a task of each shard, and returns their ids and outcomes.
func (r *rig) leaseOneEach() (all []string, done []engine.Outcome) {
	all = r.oneEach()
	batch, err := r.engine.Expire(r.t.Context(), engine.Ask{Topic: "orders", Node: "n", Max: 3, Lease: time.Hour})
	require.NoError(r.t, err)
	require.Len(r.t, batch.Leased, 3)
	for _, leased := range batch.Leased {
		done = append(done, engine.Outcome{Token: leased.Token, As: engine.Done})
	}
	return all, done
}

// A worker without room, or one that has ended, asks no more. Its outcomes reach a shard that was away all the same.
func TestAShardThatIsBackIsToldOfOutcomesWithoutACall(t *testing.T) {
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				t, ctx := r.t, r.t.Context()
				some, done := r.leaseOneEach()
				r.shards[1].is.Store(trouble)
				batch, err := r.engine.Expire(ctx, engine.Ask{Topic: "orders", Node: "n", Settle: done, Lease: time.Hour})
				require.NoError(t, err)
				require.Equal(t, []bool{true, true, true}, batch.Settled)
				pass(10 * time.Second)
				r.shards[1].is.Store(well)
				pass(10 * time.Second)
				for place, id := range some {
					task, err := r.engine.Get(ctx, []engine.Key{{Topic: "orders", ID: id}})
					require.NoError(t, err)
					require.Equal(t, engine.None, task[0].State, "shard %d", place)
				}
			})
		})
	}
}

// Somebody's transaction may have locked these tasks. The first call to tell them waits for it, and no other.
func TestWhatIsOwedToAShardHoldsUpNoCall(t *testing.T) {
	inBubble(t, func(r *rig) {
		t, ctx := r.t, r.t.Context()
		some, done := r.leaseOneEach()
		r.shards[1].is.Store(stuck)
		ask := engine.Ask{Topic: "orders", Node: "n", Max: 3, Lease: time.Hour}
		settle := ask
		settle.Settle = done
		batch, err := r.engine.Expire(ctx, settle)
		require.NoError(t, err)
		require.Equal(t, []bool{true, true, true}, batch.Settled)
		pass(time.Second)
		for range 300 {
			began := time.Now()
			_, err := r.engine.Expire(ctx, ask)
			require.NoError(t, err)
			require.NoError(t, r.set("{"+some[1]+"}", time.Hour))
			require.Less(t, time.Since(began), time.Second)
			pass(100 * time.Millisecond)
		}
		r.shards[1].is.Store(well)
		pass(10 * time.Second)
		task, err := r.engine.Get(ctx, []engine.Key{{Topic: "orders", ID: some[1]}})
		require.NoError(t, err)
		require.Equal(t, engine.None, task[0].State)
	})
}
