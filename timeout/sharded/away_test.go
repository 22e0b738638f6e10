package sharded_test

import (
	"context"
	"fmt"
	"math"
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

// rig is a center over three shards, in a bubble. It counts the runs of each task.
type rig struct {
	*timeout.Center
	t      *testing.T
	engine engine.Engine
	shards []*shaky

	mu  sync.Mutex
	ran map[string]int
}

func inBubble(t *testing.T, f func(r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, ran: map[string]int{}}
		var shards []engine.Engine
		for range 3 {
			r.shards = append(r.shards, &shaky{Engine: inMemory(t)})
			shards = append(shards, r.shards[len(r.shards)-1])
		}
		r.engine = overWith(t, sharded.Config{Logger: silent}, shards...)
		center, err := timeout.New(r.engine, timeout.Config{Topic: engine.Topic{Lease: 9 * time.Second}, Logger: silent})
		require.NoError(t, err)
		r.Center = center
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- center.Run(ctx) }()
		t.Cleanup(func() {
			for _, s := range r.shards {
				s.is.Store(well)
			}
			cancel()
			require.NoError(t, <-ran)
			require.NoError(t, center.Close())
		})
		f(r)
	})
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// handle handles tasks. Each takes the given time. Without one there is no timer: Go 1.26's race
// detector crashes if two goroutines of a bubble meet timers of 0 at the same moment.
func (r *rig) handle(took time.Duration) {
	require.NoError(r.t, r.Handle("orders", func(ctx context.Context, task engine.Task) error {
		if took > 0 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(took):
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ran[task.ID]++
		return nil
	}))
}

// ids returns each ids for each shard.
func ids(topic string, shards, each int) [][]string {
	all := make([][]string, shards)
	for n := 0; slices.ContainsFunc(all, func(some []string) bool { return len(some) < each }); n++ {
		id := fmt.Sprint(n)
		if p := sharded.ShardOf(engine.Key{Topic: topic, ID: id}, shards); len(all[p]) < each {
			all[p] = append(all[p], id)
		}
	}
	return all
}

func (r *rig) set(id string, after time.Duration) error {
	_, err := r.Set(r.t.Context(), engine.Task{Topic: "orders", ID: id, After: after})
	return err
}

// all reports whether tasks have run, once each.
func (r *rig) all(ids []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if r.ran[id] != 1 {
			return false
		}
	}
	return true
}

func (r *rig) none(ids []string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		require.Zero(r.t, r.ran[id], "task %s", id)
	}
}

var troubles = map[string]int32{"refusing": refusing, "hanging": hanging, "deaf": deaf, "frozen": frozen, "paused": paused}

func TestWhileAShardIsAwayItsTasksWaitAndTheOthersGoOn(t *testing.T) {
	for name, trouble := range troubles {
		for away := range 2 { // the first shard, and another one
			t.Run(fmt.Sprintf("%s/%d", name, away), func(t *testing.T) {
				inBubble(t, func(r *rig) {
					t := r.t
					r.handle(0)
					set := ids("orders", 3, 40)
					for _, some := range set {
						for n, id := range some {
							require.NoError(t, r.set(id, time.Duration(20+n)*time.Second))
						}
					}
					pass(10 * time.Second)
					r.shards[away].is.Store(trouble)
					pass(30 * time.Second)
					for index, some := range set {
						if index != away {
							require.True(t, r.all(some[:15]), "shard %d", index)
							require.NoError(t, r.set("{"+some[0]+"}", time.Second))
						}
					}
					if trouble != deaf {
						r.none(set[away])
					}
					require.Error(t, r.set(set[away][39], 0))
					pass(3 * time.Second)
					for index, some := range set {
						if index != away {
							require.True(t, r.all([]string{"{" + some[0] + "}"}), "shard %d", index)
						}
					}
					r.shards[away].is.Store(well)
					pass(60 * time.Second)
					for index, some := range set {
						require.True(t, r.all(some), "shard %d", index)
					}
					pass(time.Minute)
					for index, some := range set {
						require.True(t, r.all(some), "once each: shard %d", index)
					}
				})
			})
		}
	}
}

// A task longer than its lease goes on if its shard answers, and only then.
func TestLeasesAreExtendedWhileAnotherShardIsAway(t *testing.T) {
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				t := r.t
				r.handle(60 * time.Second)
				set := ids("orders", 3, 5)
				for _, id := range slices.Concat(set...) {
					require.NoError(t, r.set(id, 0))
				}
				pass(5 * time.Second)
				r.shards[2].is.Store(trouble)
				pass(50 * time.Second)
				r.none(slices.Concat(set...))
				pass(12 * time.Second)
				require.True(t, r.all(set[0]))
				require.True(t, r.all(set[1]))
				require.EqualValues(t, 5, r.Stats()[0].Lost, "a lease that can't be extended is lost, as ever")
				r.none(set[2])
				r.shards[2].is.Store(well)
				pass(100 * time.Second)
				require.True(t, r.all(set[2]))
			})
		})
	}
}

// Outcomes from a time without the shard are delivered when it is back.
func TestAnOutcomeThatCouldNotBeToldIsToldLater(t *testing.T) {
	for name, trouble := range map[string]int32{"refusing": refusing, "hanging": hanging} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				t := r.t
				r.handle(4 * time.Second)
				set := ids("orders", 3, 5)
				for _, id := range slices.Concat(set...) {
					require.NoError(t, r.set(id, 0))
				}
				pass(2 * time.Second)
				r.shards[1].is.Store(trouble)
				pass(3 * time.Second)
				require.True(t, r.all(set[1]), "they have run")
				r.shards[1].is.Store(well)
				pass(3 * time.Second) // before their leases would have ended
				for _, id := range set[1] {
					_, err := r.Get(t.Context(), engine.Key{Topic: "orders", ID: id})
					require.ErrorIs(t, err, engine.ErrNotFound, "it is done")
				}
				pass(time.Minute)
				require.True(t, r.all(slices.Concat(set...)))
			})
		})
	}
}

// A call for one task or for everything fails if it needs the missing shard.
func TestWhatCanNotBeSaidWithoutAShardIsAnError(t *testing.T) {
	inBubble(t, func(r *rig) {
		set := ids("orders", 3, 1)
		var tasks []engine.Task
		var keys []engine.Key
		for _, some := range set {
			tasks = append(tasks, engine.Task{Topic: "orders", ID: some[0], After: time.Hour})
			keys = append(keys, engine.Key{Topic: "orders", ID: some[0]})
		}
		_, err := r.SetAll(r.t.Context(), tasks)
		require.NoError(r.t, err)
		r.shards[1].is.Store(refusing)
		pass(time.Second)
		_, err = r.GetAll(r.t.Context(), keys)
		require.ErrorIs(r.t, err, errRefused)
		require.ErrorContains(r.t, err, "shard 2 of 3")
		_, err = r.Count(r.t.Context(), "orders")
		require.ErrorIs(r.t, err, errRefused)
		require.ErrorIs(r.t, r.Pause(r.t.Context(), "orders"), errRefused)
		require.ErrorIs(r.t, r.DropTopic(r.t.Context(), "orders"), errRefused)
		answers, err := r.SetAll(r.t.Context(), tasks)
		require.NoError(r.t, err)
		require.NoError(r.t, answers[0].Err)
		require.ErrorIs(r.t, answers[1].Err, errRefused)
		require.Equal(r.t, engine.None, answers[1].Was)
		require.Equal(r.t, engine.Pending, answers[2].Was)
		token := engine.Token{Key: keys[1], Lease: 1}
		_, err = r.Feedback(r.t.Context(), token, nil)
		require.ErrorIs(r.t, err, errRefused)
		for _, s := range r.shards {
			s.is.Store(refusing)
		}
		_, err = r.SetAll(r.t.Context(), tasks)
		require.ErrorIs(r.t, err, errRefused)
		_, err = r.engine.Lease(r.t.Context(), engine.Ask{Topic: "orders", Max: 1})
		require.ErrorIs(r.t, err, errRefused)
	})
}

// A change on condition that has not reached all shards is half-made: the first shard has it, and the others get it when
// they are back, or by a call for the topic as it is.
func TestAChangeOnConditionGoesOnWhereItHasEnded(t *testing.T) {
	inBubble(t, func(r *rig) {
		t, ctx := r.t, r.t.Context()
		was, err := r.ChangeTopicIf(ctx, engine.Topic{}, engine.Topic{Name: "mails", MaxDead: math.MaxInt})
		require.NoError(t, err)
		r.shards[2].is.Store(refusing)
		pass(time.Second)
		next := was.Topic
		next.Retries, next.Paused, next.PausedUntil = 3, true, time.Now().Add(time.Hour).Truncate(time.Millisecond)
		_, err = r.ChangeTopicIf(ctx, was.Topic, next)
		require.ErrorIs(t, err, errRefused)
		_, err = r.ChangeTopicIf(ctx, was.Topic, next)
		require.ErrorIs(t, err, engine.ErrChanged)
		has, err := r.Topic(ctx, "mails")
		require.NoError(t, err)
		require.Equal(t, 3, has.Retries)
		require.True(t, next.PausedUntil.Equal(has.PausedUntil))
		_, err = r.ChangeTopicIf(ctx, engine.Topic{}, engine.Topic{Name: "new"})
		require.NoError(t, err, "a new topic can wait for a shard")
		r.shards[2].is.Store(well)
		pass(2 * time.Second)
		_, err = r.ChangeTopicIf(ctx, has, next)
		require.NoError(t, err)
		all := make([][]engine.Topic, 3)
		for i, shard := range r.shards {
			all[i], err = shard.Engine.Topics(ctx)
			require.NoError(t, err)
		}
		require.Equal(t, all[0], all[2])
		require.Equal(t, all[0], all[1])
	})
}

// A pause must reach all shards, or it is an error. It holds in the reached shards. The others
// hear of it when they are back.
func TestTopicsAreBroughtInLineWhenAShardIsBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		r.handle(0)
		set := ids("orders", 3, 3)
		require.NoError(t, r.set(set[0][0], time.Hour))
		require.NoError(t, r.set(set[2][0], 10*time.Second))
		r.shards[2].is.Store(refusing)
		pass(time.Second)
		require.Error(t, r.Pause(t.Context(), "orders"))
		_, err := r.SetTopic(t.Context(), engine.Topic{Name: "mails"})
		require.Error(t, err)
		_, err = r.Set(t.Context(), engine.Task{Topic: "new", ID: "1", After: time.Hour})
		if sharded.ShardOf(engine.Key{Topic: "new", ID: "1"}, 3) == 2 {
			require.Error(t, err)
		} else {
			require.NoError(t, err)
		}
		r.shards[2].is.Store(well)
		pass(2 * time.Second)
		first, err := r.shards[0].Engine.Topics(t.Context())
		require.NoError(t, err)
		require.Len(t, first, 4)
		third, err := r.shards[2].Engine.Topics(t.Context())
		require.NoError(t, err)
		require.Equal(t, first, third)
		pass(30 * time.Second)
		r.none(set[2])
		require.NoError(t, r.Resume(t.Context(), "orders"))
		pass(2 * time.Second)
		require.True(t, r.all(set[2][:1]))
	})
}

// If a shard does not know a topic, for any reason, the next call in need of the topic tells it.
func TestAShardThatDoesNotKnowATopicIsTold(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		r.handle(0)
		set := ids("orders", 3, 2)
		require.NoError(t, r.set(set[0][0], 0))
		pass(2 * time.Second)
		for _, index := range []int{1, 2} {
			require.NoError(t, r.shards[index].Engine.DropTopic(t.Context(), "orders"))
		}
		answers, err := r.engine.Set(t.Context(), []engine.Task{{Topic: "orders", ID: set[1][0]}})
		require.NoError(t, err)
		require.NoError(t, answers[0].Err)
		_, err = r.engine.Lease(t.Context(), engine.Ask{Topic: "orders", Max: 10, Lease: time.Minute})
		require.NoError(t, err)
		for _, shard := range r.shards {
			topics, err := shard.Engine.Topics(t.Context())
			require.NoError(t, err)
			require.Len(t, topics, 2)
		}
		pass(2 * time.Minute)
		require.True(t, r.all([]string{set[1][0]}))
	})
}

// After a restore from an earlier time, the first shard may lack topics, and slots of others. The
// other shards neither drop nor forget theirs.
func TestAFirstShardFromAnEarlierTimeCostsNothingOfTheOthers(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		r.handle(0)
		set := ids("orders", 3, 40)
		for _, id := range slices.Concat(set[1], set[2]) {
			require.NoError(t, r.set(id, time.Minute))
		}
		_, err := r.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 32})
		require.NoError(t, err)
		pass(5 * time.Second)
		require.NoError(t, r.shards[0].Engine.DropTopic(t.Context(), "orders"))
		pass(5 * time.Second)
		_, err = r.shards[0].Engine.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 8}, true)
		require.NoError(t, err)
		pass(2 * time.Minute)
		require.True(t, r.all(slices.Concat(set[1], set[2])))
		topics, err := r.shards[0].Engine.Topics(t.Context())
		require.NoError(t, err)
		require.Equal(t, 32, topics[1].Slots)
	})
}

func TestManyThatChangeATopicLeaveItTheSameEverywhere(t *testing.T) {
	shards := []engine.Engine{inMemory(t), inMemory(t), inMemory(t)}
	e, other := over(t, shards...), over(t, shards...)
	var changing sync.WaitGroup
	for i := range 8 {
		changing.Go(func() {
			for n := range 50 {
				_, err := []engine.Engine{e, other}[i%2].SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 1 << (n / 10), Retries: 1 + i*100 + n}, n%7 == 0)
				if err != nil {
					require.ErrorIs(t, err, engine.ErrConflict)
				}
			}
		})
	}
	changing.Wait()
	first, err := shards[0].Topics(t.Context())
	require.NoError(t, err)
	for _, shard := range shards[1:] {
		topics, err := shard.Topics(t.Context())
		require.NoError(t, err)
		require.Equal(t, first, topics)
	}
}
