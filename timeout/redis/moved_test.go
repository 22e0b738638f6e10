package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// Tasks are moved, and it stays known when they were set. Then they end in each way, and nothing of
// that is left.
func TestWhenMovedTasksWereSetIsKnownUntilTheyEnd(t *testing.T) {
	ctx, client := t.Context(), sharedServer(t).client(t)
	e := openEngine(t, sharedServer(t), redis.Config{})
	left := func() (n int) {
		for _, name := range client.Keys(ctx, e.Prefix()+":{moves:*:m").Val() {
			for _, field := range client.HKeys(ctx, name).Val() {
				if field[0] == 1 {
					n++
				}
			}
		}
		return n
	}
	callback := &engine.Callback{Kind: "http", Target: "http://127.0.0.1/" + strings.Repeat("x", 200)}
	for _, retain := range []time.Duration{0, time.Hour} {
		_, err := e.SetTopic(ctx, engine.Topic{Name: "moves", Slots: 2, Retain: retain}, false)
		require.NoError(t, err)
		for _, end := range []string{"set", "remove", "done", "dead", "drop"} {
			var tasks []engine.Task
			var keys []engine.Key
			var moves []engine.Move
			for i := range 4 {
				task := engine.Task{Topic: "moves", ID: fmt.Sprint(end, i), Payload: []byte("payload"), After: time.Hour}
				if i%2 == 0 {
					task.Callback = callback
				}
				tasks, keys, moves = append(tasks, task), append(keys, task.Key()), append(moves, engine.Move{Key: task.Key(), After: 2 * time.Hour})
			}
			_, err := e.Set(ctx, tasks)
			require.NoError(t, err)
			set, err := e.Get(ctx, keys)
			require.NoError(t, err)
			for range 2 {
				time.Sleep(3 * time.Millisecond)
				_, err = e.Move(ctx, moves)
				require.NoError(t, err)
			}
			require.Equal(t, 4, left())
			same := func(state engine.State) {
				t.Helper()
				now, err := e.Get(ctx, keys)
				require.NoError(t, err)
				for i, task := range now {
					if task.State != engine.None || retain > 0 {
						require.Equal(t, state, task.State)
						require.Equal(t, set[i].Created, task.Created)
						require.Equal(t, set[i].Payload, task.Payload)
						require.Equal(t, set[i].Callback, task.Callback)
					}
				}
			}
			same(engine.Pending)
			switch end {
			case "set":
				_, err = e.Set(ctx, tasks)
				require.NoError(t, err)
				require.Zero(t, left())
				now, err := e.Get(ctx, keys)
				require.NoError(t, err)
				require.True(t, now[0].Created.After(set[0].Created))
				_, err = e.Remove(ctx, removals(keys))
				require.NoError(t, err)
			case "remove":
				_, err = e.Remove(ctx, removals(keys))
				require.NoError(t, err)
				same(engine.Removed)
			case "drop":
				require.NoError(t, e.DropTopic(ctx, "moves"))
			default:
				for i := range moves {
					moves[i].After = 0
				}
				_, err = e.Move(ctx, moves)
				require.NoError(t, err)
				var batch engine.Batch
				require.Eventually(t, func() bool {
					some, err := e.Lease(ctx, engine.Ask{Topic: "moves", Node: "n", Max: 4, Lease: time.Hour})
					require.NoError(t, err)
					batch.Leased = append(batch.Leased, some.Leased...)
					return len(batch.Leased) == 4
				}, time.Minute, time.Millisecond)
				same(engine.Running)
				require.Zero(t, left())
				as := map[string]engine.State{"done": engine.Done, "dead": engine.Dead}[end]
				ask := engine.Ask{Topic: "moves", Node: "n"}
				for _, leased := range batch.Leased {
					ask.Settle = append(ask.Settle, engine.Outcome{Token: leased.Token, As: as})
				}
				_, err = e.Lease(ctx, ask)
				require.NoError(t, err)
				same(as)
			}
			require.Zero(t, left(), end)
		}
	}
}

func removals(keys []engine.Key) (all []engine.Removal) {
	for _, key := range keys {
		all = append(all, engine.Removal{Key: key})
	}
	return all
}

// A body of an earlier version has no place for a mark.
func TestATaskWithACallbackOfAnEarlierVersionCanBeMoved(t *testing.T) {
	ctx, client := t.Context(), sharedServer(t).client(t)
	e := openEngine(t, sharedServer(t), redis.Config{})
	_, err := e.SetTopic(ctx, engine.Topic{Name: "moves", Slots: 1}, false)
	require.NoError(t, err)
	key := engine.Key{Topic: "moves", ID: "1"}
	_, err = e.Set(ctx, []engine.Task{{Topic: "moves", ID: "1", Payload: []byte("payload"), After: time.Hour}})
	require.NoError(t, err)
	bodies := client.Keys(ctx, e.Prefix()+":{moves:*:b").Val()
	require.Len(t, bodies, 1)
	body := client.HGet(ctx, bodies[0], "1").Val()
	const callback = `{"kind":"http","target":"http://127.0.0.1/"}`
	require.NoError(t, client.HSet(ctx, bodies[0], "1", body[:7]+"\x01"+string(rune(len(callback)))+callback+"payload").Err())
	get := func() engine.Task {
		tasks, err := e.Get(ctx, []engine.Key{key})
		require.NoError(t, err)
		require.Equal(t, &engine.Callback{Kind: "http", Target: "http://127.0.0.1/"}, tasks[0].Callback)
		require.Equal(t, "payload", string(tasks[0].Payload))
		return tasks[0]
	}
	set := get()
	for range 2 {
		time.Sleep(3 * time.Millisecond)
		_, err = e.Move(ctx, []engine.Move{{Key: key, After: 2 * time.Hour}})
		require.NoError(t, err)
		require.Equal(t, set.Created, get().Created)
		require.True(t, get().Due.After(set.Due.Add(30*time.Minute)))
	}
}
