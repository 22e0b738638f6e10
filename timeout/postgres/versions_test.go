package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// witness knows the answered versions, by key.
type witness struct {
	mu      sync.Mutex
	highest map[engine.Key]int64
	given   map[engine.Key]map[int64]bool
}

// floor returns the highest versions of tasks answered before now.
func (w *witness) floor(keys []engine.Key) []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	floors := make([]int64, len(keys))
	for i, key := range keys {
		floors[i] = w.highest[key]
	}
	return floors
}

// answered takes note of the version given to a task by a call with that floor.
func (w *witness) answered(key engine.Key, version, floor int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if version <= floor {
		return fmt.Errorf("%v has version %d after %d", key, version, floor)
	}
	if w.given[key] == nil {
		w.given[key] = map[int64]bool{}
	}
	if w.given[key][version] {
		return fmt.Errorf("%v has version %d twice", key, version)
	}
	w.given[key][version] = true
	w.highest[key] = max(w.highest[key], version)
	return nil
}

// Setters, movers and removers meet on a few keys. Nobody removes some of them: their later versions
// are never below an answered one.
func TestVersionsAreNewAndHigherThanWhatWasAnswered(t *testing.T) {
	const hot, kept, calls = 6, 6, 120
	engines := []*postgres.Engine{openTopic(t, engine.Topic{Name: "orders"})}
	engines = append(engines, open(t, schemaOf(engines[0])))
	w := &witness{highest: map[engine.Key]int64{}, given: map[engine.Key]map[int64]bool{}}
	some := func(from, to int) (keys []engine.Key) {
		for _, i := range rand.Perm(to - from)[:1+rand.IntN(3)] {
			keys = append(keys, key(fmt.Sprint(from+i)))
		}
		return keys
	}
	verbs := []func(ctx context.Context, e *postgres.Engine) error{
		func(ctx context.Context, e *postgres.Engine) error { // set
			keys := some(0, hot+kept)
			tasks, floors := make([]engine.Task, len(keys)), w.floor(keys)
			for i, key := range keys {
				tasks[i] = engine.Task{Topic: key.Topic, ID: key.ID, After: time.Hour}
			}
			answers, err := e.Set(ctx, tasks)
			for i, answer := range answers {
				err = errors.Join(err, w.answered(keys[i], answer.Version, floors[i]))
			}
			return err
		},
		func(ctx context.Context, e *postgres.Engine) error { // move
			keys := some(0, hot+kept)
			moves, floors := make([]engine.Move, len(keys)), w.floor(keys)
			for i, key := range keys {
				moves[i] = engine.Move{Key: key, After: time.Hour}
			}
			answers, err := e.Move(ctx, moves)
			for i, answer := range answers {
				if answer.Was == engine.Pending {
					err = errors.Join(err, w.answered(keys[i], answer.Version, floors[i]))
				}
			}
			return err
		},
		func(ctx context.Context, e *postgres.Engine) error { // remove
			var removals []engine.Removal
			for _, key := range some(0, hot) {
				removals = append(removals, engine.Removal{Key: key})
			}
			_, err := e.Remove(ctx, removals)
			return err
		},
		func(ctx context.Context, e *postgres.Engine) error { // get
			keys := some(hot, hot+kept)
			floors := w.floor(keys)
			tasks, err := e.Get(ctx, keys)
			for i, task := range tasks {
				if task.Version < floors[i] {
					err = errors.Join(err, fmt.Errorf("%v: version %d is got after %d was answered", keys[i], task.Version, floors[i]))
				}
			}
			return err
		},
	}
	var all errgroup.Group
	for i, eng := range engines {
		for _, verb := range verbs {
			all.Go(func() error {
				for range calls {
					if err := verb(t.Context(), eng); err != nil {
						return fmt.Errorf("engine %d: %w", i, err)
					}
				}
				return nil
			})
		}
	}
	require.NoError(t, all.Wait())
}

// Processes of a version before don't know when a pause ends, and leave that out when they change the topic.
func TestAPauseIsForAVersionBeforeOneThatSomebodyHasToEnd(t *testing.T) {
	ctx := t.Context()
	for _, zone := range []string{"UTC", "Asia/Kathmandu"} {
		e, err := postgres.Open(ctx, sharedURL(t, "timezone="+url.QueryEscape(zone)), postgres.Config{Schema: newSchema()})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		_, err = e.SetTopic(ctx, engine.Topic{Name: "orders"}, true)
		require.NoError(t, err)
		pool := newPool(t)
		exec := func(sql string) {
			t.Helper()
			_, err := pool.Exec(ctx, sql)
			require.NoError(t, err)
		}
		_, err = e.Set(ctx, []engine.Task{{Topic: "orders", ID: "x"}})
		require.NoError(t, err)
		_, err = e.Pause(ctx, "orders", true, time.Now().Add(time.Hour))
		require.NoError(t, err)
		table := schemaOf(e) + ".hw_topics"
		var paused bool
		require.NoError(t, pool.QueryRow(ctx, "SELECT paused FROM "+table).Scan(&paused))
		require.True(t, paused)
		leased := func() int {
			batch, err := e.Lease(ctx, engine.Ask{Topic: "orders", Max: 1, Lease: time.Minute})
			require.NoError(t, err)
			return len(batch.Leased)
		}
		require.Zero(t, leased())
		exec("UPDATE " + table + ` SET config = config::jsonb || '{"paused_until":"2020-01-01T00:00:00.5+05:30"}'`)
		require.Equal(t, 1, leased(), "it has ended")
		exec("UPDATE " + table + " SET config = config::jsonb - 'paused_until'")
		_, err = e.Set(ctx, []engine.Task{{Topic: "orders", ID: "y"}})
		require.NoError(t, err)
		require.Zero(t, leased())
		topics, err := e.Topics(ctx)
		require.NoError(t, err)
		require.True(t, topics[0].Paused && topics[0].PausedUntil.IsZero())
	}
}
