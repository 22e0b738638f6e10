package redis_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// with returns the server with a key, in a Cluster, and a client of it.
func with(t testing.TB, servers []server, key string) (server, *goredis.Client) {
	for _, s := range servers {
		client := s.sameClient(t)
		if err := client.Exists(ctx, key).Err(); err == nil {
			return s, client
		}
	}
	t.Fatal("no server has " + key)
	return server{}, nil
}

// loseHash deletes the records of the topics, and the counter of generations beside them.
func loseHash(t testing.TB, servers []server, prefix string) {
	_, client := with(t, servers, prefix+":{topics}:t")
	require.NoError(t, client.Del(ctx, prefix+":{topics}:t", prefix+":{topics}:n").Err())
}

// generationsOf returns the generations of a topic with open slots, or with tasks.
func generationsOf(t testing.TB, servers []server, prefix, topic string) map[string]bool {
	found := map[string]bool{}
	for _, s := range servers {
		client := s.sameClient(t)
		for _, name := range client.Keys(ctx, prefix+":{"+topic+":*").Val() {
			tag := strings.Split(name[strings.Index(name, "{")+1:strings.Index(name, "}")], ":")
			sealed := strings.HasSuffix(name, ":m") && client.HExists(ctx, name, "z").Val()
			if !sealed && !strings.HasSuffix(name, ":t") {
				found[tag[1]] = true
			}
		}
	}
	return found
}

// fire runs so many tasks in several engines, by turns, and counts how often each has run.
func fire(t testing.TB, topic string, tasks int, engines ...*redis.Engine) map[string]int {
	t.Helper()
	times, settle := map[string]int{}, make([][]engine.Outcome, len(engines))
	require.Eventually(t, func() bool {
		left := false
		for i, e := range engines {
			batch, err := e.Lease(ctx, engine.Ask{Topic: topic, Node: fmt.Sprint("node-", i), Settle: settle[i], Max: 50, Lease: time.Minute})
			if !assert.NoError(t, err) {
				return true
			}
			assert.NotContains(t, batch.Settled, false)
			settle[i] = settle[i][:0]
			for _, leased := range batch.Leased {
				times[leased.ID]++
				settle[i] = append(settle[i], engine.Outcome{Token: leased.Token, As: engine.Done})
			}
			left = left || len(settle[i]) > 0
		}
		return len(times) >= tasks && !left
	}, time.Minute, 10*time.Millisecond)
	return times
}

func batchOf(topic, name string, count int, after time.Duration) []engine.Task {
	tasks := make([]engine.Task, count)
	for i := range tasks {
		tasks[i] = engine.Task{Topic: topic, ID: fmt.Sprint(name, "-", i), After: after}
	}
	return tasks
}

func setAll(t testing.TB, e engine.Engine, tasks []engine.Task) {
	t.Helper()
	answers, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	for _, answer := range answers {
		require.NoError(t, answer.Err)
	}
}

func topicNames(t testing.TB, e engine.Engine) (names []string) {
	t.Helper()
	topics, err := e.Topics(ctx)
	require.NoError(t, err)
	for _, topic := range topics {
		names = append(names, topic.Name)
	}
	return names
}

// The tasks are on all masters, the records of the topics on one. Without the records nobody must
// begin other keys. A process with a known topic goes on in the old ones.
func TestTheRecordsOfTheTopicsAreLost(t *testing.T) {
	servers := shareCluster(t)
	doors := doors(t, servers)
	first := map[string]func(*testing.T, *redis.Engine){
		"SetTopic": func(t *testing.T, e *redis.Engine) {
			topic, err := e.SetTopic(ctx, engine.Topic{Name: "orders", Slots: 8, Retries: 4}, false)
			require.NoError(t, err)
			require.Equal(t, 8, topic.Slots)
		},
		"SetTopic that grows": func(t *testing.T, e *redis.Engine) { withTopic(t, e, engine.Topic{Slots: 32}) },
		"Set":                 func(t *testing.T, e *redis.Engine) { setAll(t, e, batchOf("orders", "new", 1, time.Hour)) },
		"Get":                 func(t *testing.T, e *redis.Engine) { require.Equal(t, engine.Pending, get(t, e, "a-0").State) },
		"Lease":               func(t *testing.T, e *redis.Engine) { leaseBatch(t, e, engine.Ask{Settle: []engine.Outcome{}}) },
		"Count": func(t *testing.T, e *redis.Engine) {
			counts, err := e.Count(ctx, "orders")
			require.NoError(t, err)
			require.EqualValues(t, 100, counts.Pending)
		},
		"Topics": func(t *testing.T, e *redis.Engine) {
			require.Equal(t, []string{"bills", "orders"}, topicNames(t, e))
		},
		"Maintain": func(t *testing.T, e *redis.Engine) {
			_, err := e.Maintain(ctx)
			require.NoError(t, err)
		},
		"Pause": func(t *testing.T, e *redis.Engine) {
			_, err := e.Pause(ctx, "orders", false, time.Time{})
			require.NoError(t, err)
		},
	}
	for name, do := range first {
		t.Run(name, func(t *testing.T) {
			old := newEngine(t, doors[0], redis.Config{PollInterval: -1})
			again := func() *redis.Engine {
				return newEngine(t, doors[1], redis.Config{Prefix: old.Prefix(), PollInterval: -1})
			}
			withTopic(t, old, engine.Topic{Slots: 8})
			withTopic(t, old, engine.Topic{Name: "bills", Slots: 8})
			withTopic(t, old, engine.Topic{Name: "gone", Slots: 8})
			setAll(t, old, batchOf("orders", "a", 100, 2*time.Second))
			setAll(t, old, batchOf("bills", "a", 100, 0))
			require.NoError(t, old.DropTopic(ctx, "gone"))
			loseHash(t, servers, old.Prefix())

			fresh := again()
			do(t, fresh)
			setAll(t, old, batchOf("orders", "b", 100, 2*time.Second))
			setAll(t, fresh, batchOf("orders", "c", 100, 2*time.Second))
			require.Equal(t, engine.Pending, get(t, old, "c-7").State)
			require.Equal(t, engine.Pending, get(t, fresh, "b-7").State)
			_, err := again().SetTopic(ctx, engine.Topic{Name: "orders"}, true)
			require.NoError(t, err)
			for id, times := range fire(t, "orders", 300, fresh, old) {
				require.Equal(t, 1, times, id)
			}
			require.Len(t, fire(t, "bills", 100, again()), 100)
			_, err = again().Count(ctx, "gone")
			require.ErrorIs(t, err, engine.ErrNotFound)
			require.ErrorIs(t, again().DropTopic(ctx, "gone"), engine.ErrNotFound)
			for _, e := range []*redis.Engine{old, fresh, again()} {
				require.Equal(t, []string{"bills", "orders"}, topicNames(t, e))
			}
			for purged := (engine.Purged{More: true}); purged.More; {
				purged, err = fresh.Maintain(ctx)
				require.NoError(t, err)
			}
			require.Len(t, generationsOf(t, servers, old.Prefix(), "orders"), 1)
		})
	}
}

// The records are lost at each step of what takes several, and then somebody else looks, or the
// process ends.
func TestTheRecordsAreLostBetweenTwoSteps(t *testing.T) {
	servers := shareCluster(t)
	doors := doors(t, servers)
	whole := func(e *redis.Engine) error {
		for purged := (engine.Purged{More: true}); purged.More; {
			var err error
			if purged, err = e.Maintain(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	acts := map[string]func(*testing.T, *redis.Engine) error{
		"make": func(_ *testing.T, e *redis.Engine) error {
			_, err := e.SetTopic(ctx, engine.Topic{Name: "bills", Slots: 2}, false)
			return err
		},
		"grow": func(_ *testing.T, e *redis.Engine) error {
			if _, err := e.SetTopic(ctx, engine.Topic{Name: "orders", Slots: 4}, false); err != nil {
				return err
			}
			return whole(e)
		},
		"pause": func(_ *testing.T, e *redis.Engine) error {
			_, err := e.Pause(ctx, "orders", true, time.Time{})
			return err
		},
		"drop": func(_ *testing.T, e *redis.Engine) error {
			if err := e.DropTopic(ctx, "gone"); !errors.Is(err, engine.ErrNotFound) {
				return err
			}
			return nil
		},
	}
	then := map[string]func(t *testing.T, known, fresh *redis.Engine) error{
		"nobody looks": func(*testing.T, *redis.Engine, *redis.Engine) error { return nil },
		"one looks": func(t *testing.T, _, fresh *redis.Engine) error {
			require.Subset(t, topicNames(t, fresh), []string{"orders"})
			_, err := fresh.Maintain(ctx)
			return err
		},
		"one sets": func(t *testing.T, known, fresh *redis.Engine) error {
			setAll(t, known, batchOf("orders", "known", 8, 0))
			setAll(t, fresh, batchOf("orders", "fresh", 8, 0))
			return nil
		},
		"one has done the same": nil,
		"crash":                 func(*testing.T, *redis.Engine, *redis.Engine) error { return errCrash },
	}
	for act, do := range acts {
		for name, next := range then {
			t.Run(act+"/"+name, func(t *testing.T) {
				for stop, done := 0, false; !done; stop++ {
					known := newEngine(t, doors[0], redis.Config{PollInterval: -1})
					cfg := redis.Config{Prefix: known.Prefix(), PollInterval: -1}
					withTopic(t, known, engine.Topic{Slots: 2})
					withTopic(t, known, engine.Topic{Name: "gone", Slots: 2})
					setAll(t, known, batchOf("orders", "a", 8, 0))
					acting, fresh := newEngine(t, doors[1], cfg), newEngine(t, doors[2], cfg)
					steps := 0
					acting.OnStep(func(string) error {
						steps++
						if steps-1 != stop {
							return nil
						}
						if next == nil {
							require.NoError(t, do(t, fresh))
							if act == "make" {
								setAll(t, fresh, batchOf("bills", "a", 8, 0))
							}
							loseHash(t, servers, known.Prefix())
							return nil
						}
						loseHash(t, servers, known.Prefix())
						return next(t, known, fresh)
					})
					err := do(t, acting)
					done = steps <= stop
					if errors.Is(err, errCrash) {
						err = do(t, fresh)
					}
					require.NoError(t, err)
					loseHash(t, servers, known.Prefix())
					if act == "make" {
						_, err := fresh.Maintain(ctx)
						require.NoError(t, err)
						if next == nil && !done {
							require.Len(t, fire(t, "bills", 8, newEngine(t, doors[2], cfg)), 8)
						}
						if name != "crash" { // it leaves unused slots
							require.Len(t, generationsOf(t, servers, known.Prefix(), "bills"), 1)
						}
					}
					requireWhole(t, servers, act, known, newEngine(t, doors[2], cfg))
				}
			})
		}
	}
}

// requireWhole looks at what has come of an act.
func requireWhole(t *testing.T, servers []server, act string, known, fresh *redis.Engine) {
	t.Helper()
	want := []string{"gone", "orders"}
	switch act {
	case "make":
		want = []string{"bills", "gone", "orders"}
	case "drop":
		want = []string{"orders"}
		require.Empty(t, generationsOf(t, servers, known.Prefix(), "gone"))
	case "pause":
		topic, err := fresh.Pause(ctx, "orders", false, time.Time{})
		require.NoError(t, err)
		require.Equal(t, 2, topic.Slots)
	}
	for _, e := range []*redis.Engine{fresh, known} {
		require.Equal(t, want, topicNames(t, e))
	}
	setAll(t, known, batchOf("orders", "b", 8, 0))
	setAll(t, fresh, batchOf("orders", "c", 8, 0))
	counts, err := fresh.Count(ctx, "orders")
	require.NoError(t, err)
	for id, times := range fire(t, "orders", int(counts.Pending), fresh, known) {
		require.Equal(t, 1, times, id)
	}
	require.GreaterOrEqual(t, counts.Pending, int64(24))
	require.Len(t, generationsOf(t, servers, known.Prefix(), "orders"), 1)
}

func TestTheRecordsAreLostOverAndOverWhileATopicGrowsUnderLoad(t *testing.T) {
	servers := shareCluster(t)
	first := openEngine(t, servers[0], redis.Config{})
	withTopic(t, first, engine.Topic{Slots: 1})
	var engines []*redis.Engine
	for i := range 3 {
		engines = append(engines, crashing(openEngine(t, servers[i], redis.Config{Prefix: first.Prefix()}), 40))
	}
	var all sync.WaitGroup
	var stop atomic.Bool
	owners := make([]*owner, 3)
	for n := range owners {
		o := &owner{t: t, engines: engines, name: fmt.Sprint("owner", n), tasks: map[string]string{}, seen: map[string]int64{}}
		owners[n] = o
		all.Go(func() {
			for i := 0; !stop.Load(); i++ {
				o.act(i)
			}
		})
	}
	all.Go(func() {
		_, client := with(t, servers, first.Prefix()+":{topics}:t")
		for !stop.Load() {
			time.Sleep(20 * time.Millisecond)
			assert.NoError(t, client.Del(ctx, first.Prefix()+":{topics}:t", first.Prefix()+":{topics}:n").Err())
		}
	})
	for slots := 2; slots <= 32; slots *= 2 {
		time.Sleep(100 * time.Millisecond)
		persist(t, func() error {
			_, err := engines[slots%3].SetTopic(ctx, engine.Topic{Name: "orders", Slots: slots}, false)
			return err
		})
	}
	time.Sleep(100 * time.Millisecond)
	stop.Store(true)
	all.Wait()
	for purged := (engine.Purged{More: true}); purged.More; {
		var err error
		purged, err = first.Maintain(ctx)
		require.NoError(t, err)
	}
	requireAll(t, first, owners)
	require.Len(t, generationsOf(t, servers, first.Prefix(), "orders"), 1)
}

// A master is restored empty, with the records, a copy of each, and slots.
func TestTheServerOfTheRecordsIsRestoredEmpty(t *testing.T) {
	t.Parallel()
	_, servers := startCluster(t, 3, 0)
	old := openEngine(t, servers[0], redis.Config{PollInterval: -1})
	withTopic(t, old, engine.Topic{Slots: 16})
	tasks := batchOf("orders", "a", 200, 0)
	setAll(t, old, tasks)
	victim, client := with(t, servers, old.Prefix()+":{topics}:t")
	lost := map[int]bool{}
	for slot := range 16 {
		name := old.SlotKey("orders", slot)
		if at, _ := with(t, servers, name); at == victim {
			lost[slot] = true
		}
	}
	require.NotEmpty(t, lost)
	require.NoError(t, client.FlushAll(ctx).Err())
	fresh := openEngine(t, servers[1], redis.Config{Prefix: old.Prefix(), PollInterval: -1})
	withTopic(t, fresh, engine.Topic{Slots: 16})
	want := 0
	for _, task := range tasks {
		if !lost[engine.Slot(task.ID, 16)] {
			want++
		}
	}
	setAll(t, old, batchOf("orders", "b", 200, 0))
	setAll(t, fresh, batchOf("orders", "c", 200, 0))
	for id, times := range fire(t, "orders", want+400, fresh, old) {
		require.Equal(t, 1, times, id)
	}
}

// copiesOf returns a client for each copy of the records, by its key.
func copiesOf(t testing.TB, servers []server, prefix string) map[string]*goredis.Client {
	copies := map[string]*goredis.Client{}
	for _, tag := range redis.CopyTags {
		name := prefix + ":{" + tag + "}:t"
		_, copies[name] = with(t, servers, name)
	}
	return copies
}

func TestAServerComesBackWithACopyOfBefore(t *testing.T) {
	servers := shareCluster(t)
	e := openEngine(t, servers[0], redis.Config{})
	again := func() *redis.Engine { return openEngine(t, servers[1], redis.Config{Prefix: e.Prefix()}) }
	withTopic(t, e, engine.Topic{Slots: 1})
	before := map[string]string{}
	for name, client := range copiesOf(t, servers, e.Prefix()) {
		before[name] = client.HGet(ctx, name, "orders").Val()
		require.NotEmpty(t, before[name])
	}
	// back has all but one of the copies be those of before.
	back := func() {
		for name, client := range copiesOf(t, servers, e.Prefix()) {
			if !strings.Contains(name, redis.CopyTags[2]) {
				require.NoError(t, client.HSet(ctx, name, "orders", before[name]).Err())
				require.NoError(t, client.Del(ctx, strings.TrimSuffix(name, "t")+"d:orders").Err())
			}
		}
	}
	_, err := e.Pause(ctx, "orders", true, time.Time{})
	require.NoError(t, err)
	back()
	loseHash(t, servers, e.Prefix())
	topics, err := again().Topics(ctx)
	require.NoError(t, err)
	require.True(t, topics[0].Paused)

	require.NoError(t, e.DropTopic(ctx, "orders"))
	back()
	loseHash(t, servers, e.Prefix())
	require.Empty(t, topicNames(t, again()))
	for name, client := range copiesOf(t, servers, e.Prefix()) {
		require.False(t, client.HExists(ctx, name, "orders").Val(), "it has heard that the topic is dropped")
	}
	withTopic(t, again(), engine.Topic{Slots: 1})
	require.Equal(t, []string{"orders"}, topicNames(t, e))
}

// A replica takes over and has not heard of the last change.
func TestTheHashLosesItsLastChange(t *testing.T) {
	servers := shareCluster(t)
	e := openEngine(t, servers[0], redis.Config{PollInterval: -1})
	hash := e.Prefix() + ":{topics}:t"
	_, client := with(t, servers, hash)
	again := func() *redis.Engine {
		return openEngine(t, servers[1], redis.Config{Prefix: e.Prefix(), PollInterval: -1})
	}
	withTopic(t, e, engine.Topic{Slots: 1})
	before := client.HGet(ctx, hash, "orders").Val()
	lose := func() { require.NoError(t, client.HSet(ctx, hash, "orders", before).Err()) }
	late := again()
	require.Equal(t, engine.None, get(t, late, "1").State)
	withTopic(t, e, engine.Topic{Slots: 4})
	setAll(t, e, batchOf("orders", "a", 20, 0))
	lose()
	_, err := late.SetTopic(ctx, engine.Topic{Name: "orders", Slots: 8}, false)
	require.NoError(t, err)
	setAll(t, late, batchOf("orders", "b", 20, 0))
	lose()
	setAll(t, again(), batchOf("orders", "c", 20, 0))
	for id, times := range fire(t, "orders", 60, e, late, again()) {
		require.Equal(t, 1, times, id)
	}
	require.NoError(t, e.DropTopic(ctx, "orders"))
	lose()
	_, err = again().Count(ctx, "orders")
	require.ErrorIs(t, err, engine.ErrNotFound)
	require.Zero(t, client.HLen(ctx, hash).Val())
}

// With a dead master the others restore what was lost.
func TestTheRecordsAreLostWhileAServerIsAway(t *testing.T) {
	t.Parallel()
	_, servers := startClusterOf(t, 3, "--cluster-require-full-coverage", "no")
	e := openEngine(t, servers[0], redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 1})
	withTopic(t, e, engine.Topic{Name: "gone", Slots: 1})
	home, _ := with(t, servers, e.Prefix()+":{topics}:t")
	live, _ := with(t, servers, e.SlotKey("orders", 0))
	for _, s := range servers {
		if s != home && s != live {
			s.Kill(t)
			break
		}
	}
	require.NoError(t, err1(e.Pause(ctx, "orders", true, time.Time{})))
	loseHash(t, servers, e.Prefix())
	fresh := openEngine(t, live, redis.Config{Prefix: e.Prefix()})
	require.Equal(t, []string{"gone", "orders"}, topicNames(t, fresh))
	setAll(t, fresh, batchOf("orders", "a", 1, time.Hour))
	topic, err := fresh.SetTopic(ctx, engine.Topic{Name: "orders"}, true)
	require.NoError(t, err)
	require.True(t, topic.Paused)
	require.Equal(t, engine.Pending, get(t, e, "a-0").State)
}

func err1(_ any, err error) error { return err }

func TestASingleServerHasNoCopies(t *testing.T) {
	t.Parallel()
	e := orders(t, engine.Topic{})
	keys, err := sharedServer(t).client(t).Keys(ctx, e.Prefix()+":{topics*").Result()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{e.Prefix() + ":{topics}:t", e.Prefix() + ":{topics}:n"}, keys)
}

// The counter of generations is lost with the records, and was ahead of the clock.
func TestNoGenerationIsUsedTwiceThoughItsCounterIsLost(t *testing.T) {
	servers := shareCluster(t)
	e := openEngine(t, servers[0], redis.Config{PollInterval: -1})
	counter := e.Prefix() + ":{topics}:n"
	_, client := with(t, servers, counter)
	require.NoError(t, client.Set(ctx, counter, time.Now().Add(time.Hour).UnixMilli(), 0).Err())
	withTopic(t, e, engine.Topic{Slots: 1})
	for slots := 2; slots <= 8; slots *= 2 {
		setAll(t, e, batchOf("orders", fmt.Sprint(slots), 10, 0))
		loseHash(t, servers, e.Prefix())
		withTopic(t, e, engine.Topic{Slots: slots})
	}
	require.Len(t, fire(t, "orders", 30, e), 30)
	require.NoError(t, e.DropTopic(ctx, "orders"))
	loseHash(t, servers, e.Prefix())
	withTopic(t, e, engine.Topic{Slots: 1})
	setAll(t, e, batchOf("orders", "a", 10, 0))
	require.Len(t, fire(t, "orders", 10, openEngine(t, servers[1], redis.Config{Prefix: e.Prefix()})), 10)
}

// The counter went ahead of the clock after the topic was made, so its generation is above its seq.
func TestAGenerationIsAboveThoseOfADroppedTopic(t *testing.T) {
	servers := shareCluster(t)
	e := openEngine(t, servers[0], redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 1})
	counter := e.Prefix() + ":{topics}:n"
	_, client := with(t, servers, counter)
	require.NoError(t, client.Set(ctx, counter, time.Now().Add(time.Hour).UnixMilli(), 0).Err())
	withTopic(t, e, engine.Topic{Slots: 2})
	before := generation(t, e)
	require.NoError(t, e.DropTopic(ctx, "orders"))
	loseHash(t, servers, e.Prefix())
	withTopic(t, e, engine.Topic{Slots: 1})
	require.Greater(t, generation(t, e), before)
}

func generation(t *testing.T, e *redis.Engine) int64 {
	gen, err := strconv.ParseInt(strings.Split(e.SlotKey("orders", 0), ":")[2], 36, 64)
	require.NoError(t, err)
	return gen
}

// The clock of the server was ahead once, and is stepped back.
func TestAGenerationIsAboveTheLastOneWhateverTheClock(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	e := openEngine(t, server, redis.Config{})
	require.NoError(t, server.client(t).Set(ctx, e.Prefix()+":{topics}:n", time.Now().Add(time.Hour).UnixMilli(), 0).Err())
	last := int64(0)
	for range 3 {
		withTopic(t, e, engine.Topic{Slots: 1})
		gen := generation(t, e)
		require.Greater(t, gen, last)
		last = gen
		require.NoError(t, e.DropTopic(ctx, "orders"))
	}
}

// No copy can take a record, but the tasks can still be read.
func TestAClusterThatCanNotSaveStillAnswers(t *testing.T) {
	t.Parallel()
	_, servers := startCluster(t, 3, 0)
	e := openEngine(t, servers[0], redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 4})
	setAll(t, e, batchOf("orders", "a", 10, time.Hour))
	for _, s := range servers {
		client := s.client(t)
		require.NoError(t, os.MkdirAll(filepath.Join(s.Dir, "dump.rdb", "x"), 0o700)) // in the file's place
		require.NoError(t, client.ConfigSet(ctx, "save", "3600 1").Err())
		require.NoError(t, client.BgSave(ctx).Err())
		require.Eventually(t, func() bool {
			return client.Eval(ctx, "#!lua\nreturn 1", nil).Err() != nil
		}, time.Minute, 10*time.Millisecond)
	}
	fresh := openEngine(t, servers[1], redis.Config{Prefix: e.Prefix()})
	require.Equal(t, engine.Pending, get(t, fresh, "a-3").State)
	require.Equal(t, []string{"orders"}, topicNames(t, fresh))
	_, err := fresh.Pause(ctx, "orders", true, time.Time{})
	require.ErrorIs(t, err, engine.ErrFull)
}

// Several processes make, grow, change and drop a topic while its record is lost over and over.
func TestTheRecordsAreLostWhileATopicIsMadeAndDropped(t *testing.T) {
	servers := shareCluster(t)
	first := openEngine(t, servers[0], redis.Config{})
	withTopic(t, first, engine.Topic{Slots: 1})
	var all sync.WaitGroup
	var stop atomic.Bool
	var engines []*redis.Engine
	for n := range 4 {
		e := openEngine(t, servers[n%3], redis.Config{Prefix: first.Prefix()})
		engines = append(engines, e)
		e.OnStep(func(string) error {
			time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
			return nil
		})
		all.Go(func() {
			for !stop.Load() {
				var err error
				switch rand.IntN(5) {
				case 0:
					err = e.DropTopic(ctx, "orders")
				case 1:
					_, err = e.SetTopic(ctx, engine.Topic{Name: "orders", Slots: 1 << rand.IntN(4)}, false)
				case 2:
					_, err = e.Pause(ctx, "orders", rand.IntN(2) == 0, time.Time{})
				case 3:
					_, err = e.SetTopic(ctx, engine.Topic{Name: "orders", Slots: 1}, true)
				case 4:
					_, err = e.Maintain(ctx)
				}
				if !errors.Is(err, engine.ErrNotFound) && !errors.Is(err, engine.ErrConflict) {
					assert.NoError(t, err)
				}
			}
		})
	}
	_, client := with(t, servers, first.Prefix()+":{topics}:t")
	for range 100 {
		time.Sleep(30 * time.Millisecond)
		require.NoError(t, client.Del(ctx, first.Prefix()+":{topics}:t", first.Prefix()+":{topics}:n").Err())
	}
	stop.Store(true)
	all.Wait()
	withTopic(t, first, engine.Topic{})
	for i, e := range engines { // what they know of the topic is the same
		setAll(t, e, batchOf("orders", fmt.Sprint("a", i), 20, time.Hour))
	}
	for i := range engines {
		require.Equal(t, engine.Pending, get(t, first, fmt.Sprintf("a%d-7", i)).State)
	}
	counts, err := first.Count(ctx, "orders")
	require.NoError(t, err)
	require.EqualValues(t, 80, counts.Pending)
}
