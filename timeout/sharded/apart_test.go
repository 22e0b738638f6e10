package sharded_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/sharded"
)

// Batches combine single calls of unrelated callers. If a shard is away or hangs, only its own
// tasks suffer.
func TestAShardThatIsAwayHoldsUpNoCallOfTheOthers(t *testing.T) {
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				require.NoError(r.t, r.set("first", time.Hour))
				pass(time.Second)
				var mu sync.Mutex
				var took [3][]time.Duration
				var errs [3]int
				var all sync.WaitGroup
				for caller := range 64 {
					all.Go(func() {
						for i := range 200 {
							id := fmt.Sprintf("%d-%d", caller, i)
							index := sharded.ShardOf(engine.Key{Topic: "orders", ID: id}, 3)
							began := time.Now()
							err := r.set(id, time.Hour)
							mu.Lock()
							took[index] = append(took[index], time.Since(began))
							if err != nil {
								errs[index]++
							}
							mu.Unlock()
							time.Sleep(10 * time.Millisecond)
						}
					})
				}
				pass(500 * time.Millisecond)
				r.shards[1].is.Store(trouble)
				all.Wait()
				for index := range took {
					slices.Sort(took[index])
					r.t.Logf("shard %d: p99 %v, %d errors of %d", index, took[index][len(took[index])*99/100], errs[index], len(took[index]))
				}
				for _, index := range []int{0, 2} {
					require.Zero(r.t, errs[index])
					require.Less(r.t, took[index][len(took[index])-1], 50*time.Millisecond)
				}
				require.Positive(r.t, errs[1], "they are not silent about it")
				r.shards[1].is.Store(well)
				pass(10 * time.Second)
				require.NoError(r.t, r.set(ids("orders", 3, 1)[1][0], time.Hour))
			})
		})
	}
}

// A task on a silent shard has an error. It does not count as missing.
func TestOfABatchEachTaskHasAnErrorOfItsOwn(t *testing.T) {
	inBubble(t, func(r *rig) {
		set := ids("orders", 3, 2)
		var keys []engine.Key
		for _, id := range slices.Concat(set...) {
			require.NoError(r.t, r.set(id, time.Hour))
			keys = append(keys, engine.Key{Topic: "orders", ID: id})
		}
		r.shards[1].is.Store(refusing)
		found, err := r.GetAll(r.t.Context(), keys)
		require.ErrorIs(r.t, err, engine.ErrPartial)
		require.ErrorIs(r.t, err, errRefused)
		for i, task := range found {
			require.Equal(r.t, keys[i], task.Key())
			require.Equal(r.t, i/2 != 1, task.State == engine.Pending)
		}
		_, err = r.Get(r.t.Context(), keys[2])
		require.ErrorIs(r.t, err, errRefused)
		require.NotErrorIs(r.t, err, engine.ErrNotFound, "nobody knows")
	})
}

// lateness runs five tasks a second of each shard, and the second shard gets into trouble. It returns the tasks of each
// shard, and how late they were.
func (r *rig) lateness(trouble int32) (set [][]string, late map[string]time.Duration) {
	var mu sync.Mutex
	late = map[string]time.Duration{}
	require.NoError(r.t, r.Handle("orders", func(_ context.Context, task engine.Task) error {
		mu.Lock()
		defer mu.Unlock()
		late[task.ID] = time.Since(task.Due)
		return nil
	}))
	set = ids("orders", 3, 100)
	for _, some := range set {
		for n, id := range some {
			require.NoError(r.t, r.set(id, 3*time.Second+time.Duration(n)*200*time.Millisecond))
		}
	}
	pass(2 * time.Second)
	r.shards[1].is.Store(trouble)
	pass(30 * time.Second)
	mu.Lock()
	defer mu.Unlock()
	return set, maps.Clone(late)
}

// A worker asks each shard by itself. If one of them hangs, the tasks of the others run in time.
func TestAShardThatHangsMakesNoTaskOfTheOthersLate(t *testing.T) {
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				set, late := r.lateness(trouble)
				var all []time.Duration
				for _, id := range slices.Concat(set[0], set[2]) {
					require.Contains(r.t, late, id)
					all = append(all, late[id])
				}
				slices.Sort(all)
				r.t.Logf("half of them were at most %v late, all %v", all[len(all)/2], all[len(all)-1])
				require.LessOrEqual(r.t, all[len(all)/2], 300*time.Millisecond)
				require.LessOrEqual(r.t, all[len(all)-1], 700*time.Millisecond)
			})
		})
	}
}

// Outcomes of one shard hang: somebody's transaction may have locked their tasks. The tasks of the others run in time, and the
// outcomes are told in the end.
func TestOutcomesThatHangHoldUpNoOtherShard(t *testing.T) {
	inBubble(t, func(r *rig) {
		set, late := r.lateness(stuck)
		for _, id := range slices.Concat(set[0], set[2]) {
			require.Contains(r.t, late, id)
			require.LessOrEqual(r.t, late[id], 500*time.Millisecond, "twice the time between two looks")
		}
		r.shards[1].is.Store(well)
		pass(2 * time.Minute)
		for _, some := range set {
			for _, id := range some {
				_, err := r.Get(r.t.Context(), engine.Key{Topic: "orders", ID: id})
				require.ErrorIs(r.t, err, engine.ErrNotFound)
			}
		}
	})
}
