package sharded_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/sharded"
)

const pullLease = 10 * time.Minute

// pulling makes orders a topic to pull from, and sets due tasks in each shard.
func (r *rig) pulling(each int) [][]string {
	_, err := r.SetTopic(r.t.Context(), engine.Topic{Name: "orders", Pull: true, Lease: pullLease})
	require.NoError(r.t, err)
	set := ids("orders", 3, each)
	for _, id := range slices.Concat(set...) {
		require.NoError(r.t, r.set(id, 0))
	}
	pass(time.Second)
	return set
}

func (r *rig) pull(most int, wait time.Duration) (pulled []string) {
	r.t.Helper()
	leased, err := r.Pull(r.t.Context(), timeout.Pull{Topic: "orders", Max: most, Wait: wait})
	require.NoError(r.t, err)
	for _, one := range leased {
		pulled = append(pulled, one.ID)
	}
	return pulled
}

// A shard that gives no answer costs pulls of the others a moment, once.
func TestAPullGetsTheTasksOfTheShardsThatAnswer(t *testing.T) {
	for name, trouble := range troubles {
		for _, wait := range []time.Duration{0, pullLease} {
			t.Run(fmt.Sprint(name, "/wait=", wait), func(t *testing.T) {
				inBubble(t, func(r *rig) {
					set := r.pulling(5)
					others := slices.Concat(set[0], set[2])
					r.shards[1].is.Store(trouble)
					began := time.Now()
					var pulled []string
					for len(pulled) < len(others) {
						some := r.pull(2, wait)
						require.NotEmpty(r.t, some, "there are more")
						pulled = append(pulled, some...)
					}
					require.ElementsMatch(r.t, others, pulled)
					require.Less(r.t, time.Since(began), 6*time.Second)
					require.Empty(r.t, r.pull(2, 0))

					r.shards[1].is.Store(well)
					pass(20 * time.Second)
					pulled = nil
					for len(pulled) < 5 {
						pulled = append(pulled, r.pull(2, wait)...)
						require.Less(r.t, time.Since(began), 2*pullLease)
						pass(time.Second)
					}
					slices.Sort(pulled)
					if trouble != deaf { // its work was done, and the leases end later
						require.Equal(r.t, slices.Sorted(slices.Values(set[1])), pulled)
					}
				})
			})
		}
	}
}

// Without any shard there is an error, each time and at once.
func TestAPullFromNoShardIsAnError(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.pulling(1)
		for _, s := range r.shards {
			s.is.Store(refusing)
		}
		for _, wait := range []time.Duration{0, 0, time.Hour} {
			began := time.Now()
			_, err := r.Pull(r.t.Context(), timeout.Pull{Topic: "orders", Wait: wait})
			require.ErrorIs(r.t, err, errRefused)
			require.Less(r.t, time.Since(began), time.Second)
		}
		for _, s := range r.shards {
			s.is.Store(well)
		}
		require.Eventually(r.t, func() bool {
			leased, err := r.Pull(r.t.Context(), timeout.Pull{Topic: "orders", Max: 3})
			return err == nil && len(leased) > 0
		}, time.Minute, time.Millisecond)
	})
}

// The rate counts the tasks of all shards, and a shard that hangs has no share of it.
func TestTheRateOfPullsIsThatOfAllShards(t *testing.T) {
	for _, trouble := range []int32{well, hanging} {
		t.Run(fmt.Sprint(trouble), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				_, err := r.SetTopic(r.t.Context(), engine.Topic{Name: "orders", Pull: true, Lease: time.Hour, Rate: 10})
				require.NoError(r.t, err)
				for _, id := range slices.Concat(ids("orders", 3, 200)...) {
					require.NoError(r.t, r.set(id, 0))
				}
				pass(time.Second)
				r.shards[1].is.Store(trouble)
				r.pull(1, time.Minute)
				pass(10 * time.Second)
				pulled := 0
				for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
					pulled += len(r.pull(100, time.Second))
				}
				require.InDelta(r.t, 200, pulled, 20)
			})
		})
	}
}

// A node whose slots are all in one shard rescues those of a node that hangs, in the other shard.
func TestTasksInAShardWithoutOwnSlotsAreRescued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := overWith(t, sharded.Config{Logger: silent}, inMemory(t), inMemory(t))
		_, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 2, Lease: time.Second}, false)
		require.NoError(t, err)
		center, err := timeout.New(e, timeout.Config{Node: "alive", Logger: silent})
		require.NoError(t, err)
		r := &rig{Center: center, t: t, engine: e, ran: map[string]int{}}
		r.handle(0)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- center.Run(ctx) }()
		var hanging sync.WaitGroup
		hanging.Go(func() {
			for ctx.Err() == nil {
				_, _ = e.Heartbeat(ctx, engine.Node{Name: "hangs"}, 10*time.Second)
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
		})
		pass(time.Minute)
		require.Len(t, r.Stats()[0].Slots, 1)
		require.Len(t, e.(engine.Parted).Parts("orders", r.Stats()[0].Slots), 1)
		set := slices.Concat(ids("orders", 2, 20)...)
		for _, id := range set { // not by this center, which would learn of the shard
			_, err := e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: id}})
			require.NoError(t, err)
		}
		pass(time.Minute)
		require.True(t, r.all(set))
		require.EqualValues(t, 20, r.Stats()[0].Rescued)
		cancel()
		require.NoError(t, <-ran)
		require.NoError(t, center.Close())
		hanging.Wait()
	})
}
