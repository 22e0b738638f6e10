package redis_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// The topics of testdata/layouts.redis were written by a version that moved tasks when a topic grew: "steady" never grew,
// "grown" has, and the others were in the middle of it. Of "sealing" one of two old slots was sealed, of "sealed" both, and
// the new ones were made. Of "moving" no task was moved yet. Of "halfway" some were, some were copied and not yet
// deleted, and some were changed since. testdata/layouts.json has the tasks as that version listed them, with the tokens of the
// running ones.
var layoutTopics = map[string]int{"steady": 4, "grown": 8, "sealing": 4, "sealed": 4, "moving": 4, "halfway": 8}

// restore gives a server the keys of the version before, with a prefix: those of a topic, or all.
func restore(t testing.TB, client goredis.UniversalClient, prefix, topic string) {
	t.Helper()
	pipe := client.Pipeline()
	raw, err := os.ReadFile("testdata/layouts.redis")
	require.NoError(t, err)
	for line := range strings.Lines(string(raw)) {
		command, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		name, rest, _ := strings.Cut(rest, " ")
		if topic != "" && !strings.Contains(name, "{"+topic+":") && !strings.Contains(name, "{topics}") {
			continue
		}
		args := []any{command, prefix + strings.TrimPrefix(name, "dump")}
		for rest != "" {
			quoted, err := strconv.QuotedPrefix(rest)
			require.NoError(t, err)
			arg, err := strconv.Unquote(quoted)
			require.NoError(t, err)
			args, rest = append(args, arg), strings.TrimPrefix(rest[len(quoted):], " ")
		}
		pipe.Do(ctx, args...)
	}
	require.NoError(t, err1(pipe.Exec(ctx)))
}

// growBefore gives orders more slots, as far as a version before had come after its second step: the old slots are sealed.
func growBefore(t testing.TB, client *goredis.Client, e *redis.Engine, slots int) {
	t.Helper()
	hash := e.Prefix() + ":{topics}:t"
	raw := client.HGet(ctx, hash, "orders").Val()
	var record struct {
		Topic    engine.Topic
		Gen, Seq int64
	}
	require.NoError(t, json.Unmarshal([]byte(raw), &record))
	old := map[string]any{"gen": record.Gen, "slots": record.Topic.Slots}
	for slot := range record.Topic.Slots {
		require.NoError(t, client.HSet(ctx, strings.TrimSuffix(e.SlotKey("orders", slot), "s")+"m", "z", 1).Err())
	}
	record.Topic.Slots = slots
	raw = changed(t, raw, map[string]any{"topic": record.Topic, "phase": "sealing", "gen": record.Gen + 1, "seq": record.Seq + 1, "old": old})
	require.NoError(t, client.HSet(ctx, hash, "orders", raw).Err())
}

// layoutTask is a task as the version before listed it.
type layoutTask struct {
	engine.Task
	Token string
}

// layoutTasks returns the tasks of a topic in layouts.json, by id.
func layoutTasks(t testing.TB, topic string) map[string]layoutTask {
	t.Helper()
	file, err := os.Open("testdata/layouts.json")
	require.NoError(t, err)
	defer file.Close()
	tasks := map[string]layoutTask{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var task layoutTask
		require.NoError(t, json.Unmarshal(lines.Bytes(), &task))
		if task.Topic == topic {
			tasks[task.ID] = task
		}
	}
	require.NotEmpty(t, tasks)
	return tasks
}

func inUTC(task engine.Task) engine.Task {
	task.Due, task.Until, task.Created = task.Due.UTC(), task.Until.UTC(), task.Created.UTC()
	return task
}

// keysOf returns the keys of tasks, in order.
func keysOf(tasks map[string]layoutTask) (keys []engine.Key) {
	for _, id := range slices.Sorted(maps.Keys(tasks)) {
		keys = append(keys, tasks[id].Key())
	}
	return keys
}

// requireLayout looks for all tasks of a topic by Get, List and Count.
func requireLayout(t testing.TB, e *redis.Engine, topic string, want map[string]layoutTask) {
	t.Helper()
	got, err := e.Get(ctx, keysOf(want))
	require.NoError(t, err)
	for _, task := range got {
		require.Equal(t, want[task.ID].Task, inUTC(task))
	}
	var counts engine.Counts
	listed := map[string]engine.Task{}
	for state := engine.Pending; state <= engine.Removed; state++ {
		page, err := e.List(ctx, engine.Query{Topic: topic, State: state, Limit: engine.MaxPage})
		require.NoError(t, err)
		require.Empty(t, page.Next)
		for _, task := range page.Tasks {
			require.NotContains(t, listed, task.ID)
			listed[task.ID] = inUTC(task)
		}
		counts.Add(state, int64(len(page.Tasks)))
	}
	require.Len(t, listed, len(want))
	for id, task := range listed {
		require.Equal(t, want[id].Task, task)
	}
	counted, err := e.Count(ctx, topic)
	require.NoError(t, err)
	counted.Due, counted.Lag = 0, 0
	require.Equal(t, counts, counted)
}

// use does each verb to the tasks of a topic that can be found.
func use(t testing.TB, e *redis.Engine, topic string, tasks map[string]layoutTask) {
	t.Helper()
	var running []engine.Token
	var due []string
	for _, key := range keysOf(tasks) {
		task := tasks[key.ID]
		if task.State == engine.Running {
			token, err := engine.ParseToken(task.Token)
			require.NoError(t, err)
			running = append(running, token)
		}
		if task.State == engine.Pending && task.Until.Year() == 2020 {
			due = append(due, key.ID)
		}
	}
	held, err := e.Extend(ctx, running, engine.MaxDuration)
	require.NoError(t, err)
	require.NotContains(t, held, false)
	var settle []engine.Outcome
	for _, token := range running {
		settle = append(settle, engine.Outcome{Token: token, As: engine.Done})
	}
	batch := leaseBatch(t, e, engine.Ask{Topic: topic, Max: 100, Settle: settle, Lease: time.Hour})
	require.NotContains(t, batch.Settled, false)
	var ids []string
	for _, leased := range batch.Leased {
		ids = append(ids, leased.ID)
		require.Equal(t, tasks[leased.ID].Attempts+1, leased.Attempts)
		require.Equal(t, tasks[leased.ID].Payload, leased.Payload)
		require.Equal(t, tasks[leased.ID].Callback, leased.Callback)
		require.Equal(t, tasks[leased.ID].Version, leased.Version)
	}
	require.ElementsMatch(t, due, ids)
	require.NotContains(t, leaseBatch(t, e, engine.Ask{Topic: topic, Settle: settle}).Settled, true, "once")

	for id, task := range tasks {
		switch {
		case task.State == engine.Dead:
			answers, err := e.Replay(ctx, []engine.Key{task.Key()})
			require.NoError(t, err)
			require.Equal(t, engine.Dead, answers[0].Was)
			require.Greater(t, answers[0].Version, task.Version)
		case strings.HasPrefix(id, "failed"), strings.HasPrefix(id, "moved"):
			answers, err := e.Move(ctx, []engine.Move{{Key: task.Key(), After: time.Hour}})
			require.NoError(t, err)
			require.Equal(t, engine.Pending, answers[0].Was)
			require.Greater(t, answers[0].Version, task.Version)
			moved, err := e.Get(ctx, []engine.Key{task.Key()})
			require.NoError(t, err)
			require.Equal(t, task.Created, moved[0].Created.UTC())
			require.Equal(t, task.Attempts, moved[0].Attempts)
		case strings.HasPrefix(id, "later"):
			answers, err := e.Remove(ctx, []engine.Removal{{Key: task.Key()}})
			require.NoError(t, err)
			require.Equal(t, task.State, answers[0].Was)
		default:
			was := task.State
			switch {
			case was == engine.Running:
				was = engine.Done
			case slices.Contains(due, id):
				was = engine.Running
			}
			answer := set(t, e, engine.Task{Topic: topic, ID: id, After: time.Hour})
			require.Equal(t, was, answer.Was, id)
			require.Greater(t, answer.Version, task.Version)
		}
	}
}

// Whatever is the first call about a topic of the version before, it finds all tasks, and so does each call after it.
func TestTopicsOfTheVersionBeforeAreReadWhateverTheFirstCall(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(*redis.Engine, string) error{
		"Get": func(e *redis.Engine, topic string) error {
			return err1(e.Get(ctx, []engine.Key{{Topic: topic, ID: "due0"}}))
		},
		"Set": func(e *redis.Engine, topic string) error {
			return err1(e.Set(ctx, []engine.Task{{Topic: topic, ID: "due0", IfAbsent: true}}))
		},
		"Move": func(e *redis.Engine, topic string) error {
			return err1(e.Move(ctx, []engine.Move{{Key: engine.Key{Topic: topic, ID: "x"}}}))
		},
		"List": func(e *redis.Engine, topic string) error {
			return err1(e.List(ctx, engine.Query{Topic: topic, State: engine.Dead}))
		},
		"Count": func(e *redis.Engine, topic string) error { return err1(e.Count(ctx, topic)) },
		"Lease": func(e *redis.Engine, topic string) error {
			return err1(e.Lease(ctx, engine.Ask{Topic: topic, Lease: time.Hour}))
		},
		"Extend": func(e *redis.Engine, topic string) error {
			return err1(e.Extend(ctx, []engine.Token{{Key: engine.Key{Topic: topic, ID: "x"}, Lease: 1 << 20, Part: "1"}}, time.Hour))
		},
		"Maintain": func(e *redis.Engine, _ string) error { return err1(e.Maintain(ctx)) },
		"SetTopic": func(e *redis.Engine, topic string) error {
			return err1(e.SetTopic(ctx, engine.Topic{Name: topic}, true))
		},
		"Pause": func(e *redis.Engine, topic string) error { return err1(e.Pause(ctx, topic, false, time.Time{})) },
		"more slots": func(e *redis.Engine, topic string) error {
			_, err := e.SetTopic(ctx, engine.Topic{Name: topic, Slots: 64, Retain: time.Hour}, false)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, cfg := sharedServer(t).client(t), redis.Config{Prefix: prefix(), PollInterval: -1}
			restore(t, client, cfg.Prefix, "")
			for topic, slots := range layoutTopics {
				tasks := layoutTasks(t, topic)
				e := openEngine(t, sharedServer(t), cfg)
				require.NoError(t, first(e, topic))
				requireLayout(t, e, topic, tasks)
				requireOneGeneration(t, e, topic, slots)
				use(t, e, topic, tasks)
				require.NoError(t, e.DropTopic(ctx, topic))
			}
		})
	}
}

// requireOneGeneration looks for keys of older generations, and for other partitions than those of the topic's birth.
func requireOneGeneration(t testing.TB, e *redis.Engine, topic string, parts int) {
	t.Helper()
	client := sharedServer(t).client(t)
	open := 0
	for _, name := range client.Keys(ctx, e.Prefix()+":{"+topic+":*").Val() {
		require.NotEqual(t, ":t", name[len(name)-2:], name)
		if name[len(name)-2:] != ":m" {
			continue
		}
		sealed := client.HExists(ctx, name, "z").Val()
		require.Equal(t, sealed, client.TTL(ctx, name).Val() > 0, name)
		require.False(t, client.HExists(ctx, name, "from").Val(), name)
		if !sealed {
			open++
		}
	}
	require.Equal(t, parts, open, "the partitions stay")
}

// A process ends at each step of a migration, and another one goes on.
func TestAMigrationIsFinishedWhereverAProcessEnds(t *testing.T) {
	t.Parallel()
	for topic, slots := range layoutTopics {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			client, tasks := sharedServer(t).client(t), layoutTasks(t, topic)
			get := func(e *redis.Engine) error { return err1(e.Get(ctx, keysOf(tasks))) }
			for end, done := 0, false; !done; end++ {
				cfg := redis.Config{Prefix: prefix(), PollInterval: -1}
				restore(t, client, cfg.Prefix, topic)
				e, steps := openEngine(t, sharedServer(t), cfg), 0
				e.OnStep(func(string) error {
					if steps++; steps-1 == end {
						return errCrash
					}
					return nil
				})
				if err := get(e); err == nil {
					done = true
				} else {
					require.ErrorIs(t, err, errCrash)
				}
				e = openEngine(t, sharedServer(t), cfg)
				require.NoError(t, get(e))
				requireLayout(t, e, topic, tasks)
				requireOneGeneration(t, e, topic, slots)
				use(t, e, topic, tasks)
			}
		})
	}
}

// A process stands still at each step, and goes on after others have migrated the topic and changed all of its tasks. It
// must bring none back.
func TestAProcessThatStandsStillInAMigrationBringsNoTaskBack(t *testing.T) {
	t.Parallel()
	for topic := range layoutTopics {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			client, tasks := sharedServer(t).client(t), layoutTasks(t, topic)
			for stand, done := 0, false; !done; stand++ {
				cfg := redis.Config{Prefix: prefix(), PollInterval: -1}
				restore(t, client, cfg.Prefix, topic)
				e, other := openEngine(t, sharedServer(t), cfg), openEngine(t, sharedServer(t), cfg)
				var now []engine.Task
				change := func() {
					use(t, other, topic, tasks)
					got, err := other.Get(ctx, keysOf(tasks))
					require.NoError(t, err)
					now = got
				}
				steps := 0
				e.OnStep(func(string) error {
					if steps++; steps-1 == stand {
						change()
					}
					return nil
				})
				got, err := e.Get(ctx, keysOf(tasks))
				require.NoError(t, err)
				if done = steps <= stand; !done {
					require.Equal(t, now, got)
				}
			}
		})
	}
}

// Several processes migrate topics at the same time, and some end in the middle.
func TestSeveralProcessesMigrateTogether(t *testing.T) {
	t.Parallel()
	client, cfg := sharedServer(t).client(t), redis.Config{Prefix: prefix(), PollInterval: -1}
	restore(t, client, cfg.Prefix, "")
	var all sync.WaitGroup
	for range 4 {
		e := crashing(openEngine(t, sharedServer(t), cfg), 10)
		for topic := range layoutTopics {
			keys := keysOf(layoutTasks(t, topic))
			all.Go(func() {
				for {
					err := err1(e.Get(ctx, keys))
					if !errors.Is(err, errCrash) {
						assert.NoError(t, err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	e := openEngine(t, sharedServer(t), cfg)
	for topic := range layoutTopics {
		tasks := layoutTasks(t, topic)
		requireLayout(t, e, topic, tasks)
		use(t, e, topic, tasks)
	}
}

// A server has lost slots of a topic that is being migrated, or what sealed them. The other tasks are moved.
func TestAMigrationGoesOnWithoutWhatWasLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(client *goredis.Client, meta string){
		"gone": func(client *goredis.Client, meta string) { client.HDel(ctx, meta, "n", "z") },
		"open": func(client *goredis.Client, meta string) { client.HDel(ctx, meta, "z") },
	} {
		for topic := range layoutTopics {
			t.Run(name+"/"+topic, func(t *testing.T) {
				t.Parallel()
				client, tasks := sharedServer(t).client(t), layoutTasks(t, topic)
				cfg := redis.Config{Prefix: prefix(), PollInterval: -1}
				restore(t, client, cfg.Prefix, topic)
				e, lost := openEngine(t, sharedServer(t), cfg), 0
				e.OnStep(func(step string) error {
					if step == "peek" && lost == 0 {
						for _, name := range client.Keys(ctx, cfg.Prefix+":{"+topic+":*:m").Val() {
							if lost++; client.HExists(ctx, name, "z").Val() {
								lose(client, name)
							}
						}
					}
					return nil
				})
				require.NoError(t, err1(e.Get(ctx, keysOf(tasks))))
				requireLayout(t, e, topic, tasks)
				use(t, e, topic, tasks)
			})
		}
	}
}

// A Cluster has copies of the records, and a slot of a topic can be on any server.
func TestAClusterIsMigrated(t *testing.T) {
	servers := shareCluster(t)
	door := doors(t, servers)[0]
	for topic := range layoutTopics {
		cfg := redis.Config{Prefix: prefix(), PollInterval: -1}
		restore(t, door, cfg.Prefix, topic)
		tasks := layoutTasks(t, topic)
		e := newEngine(t, door, cfg)
		requireLayout(t, e, topic, tasks)
		require.Len(t, generationsOf(t, servers, cfg.Prefix, topic), 1)
		use(t, e, topic, tasks)
		loseHash(t, servers, cfg.Prefix)
		fresh := newEngine(t, doors(t, servers)[1], cfg)
		require.NoError(t, err1(fresh.Count(ctx, topic)), "the copies have it")
	}
}

// A topic that is being migrated can be dropped as any other.
func TestATopicOfTheVersionBeforeIsDropped(t *testing.T) {
	t.Parallel()
	client, cfg := sharedServer(t).client(t), redis.Config{Prefix: prefix(), PollInterval: -1}
	restore(t, client, cfg.Prefix, "")
	e := openEngine(t, sharedServer(t), cfg)
	for topic := range layoutTopics {
		require.NoError(t, e.DropTopic(ctx, topic))
		require.ErrorIs(t, err1(e.Count(ctx, topic)), engine.ErrNotFound)
		for _, name := range client.Keys(ctx, e.Prefix()+":{"+topic+":*").Val() {
			require.True(t, strings.HasSuffix(name, ":m") && client.TTL(ctx, name).Val() > 0, name)
		}
	}
}

// A call waits no longer for a migration of another one than its context says.
func TestACallWaitsForAMigrationAsLongAsItsContextSays(t *testing.T) {
	t.Parallel()
	client, cfg := sharedServer(t).client(t), redis.Config{Prefix: prefix(), PollInterval: -1}
	restore(t, client, cfg.Prefix, "")
	e := openEngine(t, sharedServer(t), cfg)
	begun, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	e.OnStep(func(string) error {
		once.Do(func() { close(begun); <-goOn })
		return nil
	})
	ended := make(chan error, 1)
	go func() { ended <- err1(e.Count(ctx, "moving")) }()
	<-begun
	short, cancel := context.WithCancel(ctx)
	time.AfterFunc(20*time.Millisecond, cancel)
	require.ErrorIs(t, err1(e.Count(short, "halfway")), context.Canceled)
	close(goOn)
	require.NoError(t, <-ended)
	require.NoError(t, err1(e.Count(ctx, "halfway")))
}

// Several slots share a partition after a topic has got more of them. Its tasks are found by each verb, and leased once, by
// nodes that know of the change and by others.
func TestSlotsOfATopicWithMoreOfThemShareItsPartitions(t *testing.T) {
	t.Parallel()
	e := orders(t, engine.Topic{Slots: 2})
	stale := orders2(t, e)
	var tasks []engine.Task
	for i := range 64 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i)})
	}
	setAll(t, stale, tasks)
	runs := func() (names []string) {
		names = sharedServer(t).client(t).Keys(ctx, e.Prefix()+":{orders:*").Val()
		slices.Sort(names)
		return names
	}
	before := runs()
	withTopic(t, e, engine.Topic{Slots: 16})
	require.Equal(t, before, runs(), "nothing is moved")
	seen := map[string]bool{}
	lease := func(e *redis.Engine, slots ...int) {
		for _, leased := range leaseBatch(t, e, engine.Ask{Max: 4, Slots: slots}).Leased {
			require.False(t, seen[leased.ID], leased.ID)
			require.Contains(t, slots, engine.Slot(leased.ID, 2), "of the partition of the slot")
			seen[leased.ID] = true
		}
	}
	for range 20 {
		for _, by := range []*redis.Engine{e, stale} {
			lease(by, 0, 2, 14)
			lease(by, 1)
			for _, leased := range leaseBatch(t, by, engine.Ask{Max: 4, Slots: []int{15}}).Leased {
				require.False(t, seen[leased.ID], leased.ID)
				seen[leased.ID] = true
			}
		}
	}
	require.Len(t, seen, len(tasks))
	require.Empty(t, leaseBatch(t, stale, engine.Ask{Max: 4, Slots: []int{16, 17}}).Leased, "there are no such slots")
	for _, by := range []*redis.Engine{e, stale} {
		waits, err := by.Peek(ctx, []engine.Peek{{Topic: "orders", Slots: []int{13}}})
		require.NoError(t, err)
		require.LessOrEqual(t, waits[0], time.Minute)
		topics, err := by.Topics(ctx)
		require.NoError(t, err)
		require.Equal(t, 16, topics[0].Slots)
	}
}

// A version before knows no more partitions than slots. It must take no other for its own.
func TestAVersionBeforeRefusesATopicWithMoreSlotsThanPartitions(t *testing.T) {
	t.Parallel()
	e := orders(t, engine.Topic{Slots: 2})
	client := sharedServer(t).client(t)
	type record struct {
		Phase string
		Parts int
	}
	now := func() (r record) {
		require.NoError(t, json.Unmarshal([]byte(client.HGet(ctx, e.Prefix()+":{topics}:t", "orders").Val()), &r))
		return r
	}
	require.Equal(t, record{}, now(), "before there are more slots, it is as that version writes it")
	for _, slots := range []int{4, 16} {
		withTopic(t, e, engine.Topic{Slots: slots})
		require.Equal(t, record{"masked", 2}, now())
	}
}

// A server of old slots loses its last writes, after these were found empty. What comes back there is in the new slots
// already.
func TestTasksThatComeBackToAnOldSlotAreNotTakenOverTwice(t *testing.T) {
	t.Parallel()
	for _, topic := range []string{"moving", "halfway"} {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			client, tasks := sharedServer(t).client(t), layoutTasks(t, topic)
			cfg := redis.Config{Prefix: prefix(), PollInterval: -1}
			restore(t, client, cfg.Prefix, topic)
			old := map[string]string{} // the keys of sealed slots
			for _, meta := range client.Keys(ctx, cfg.Prefix+":{"+topic+":*:m").Val() {
				if client.HExists(ctx, meta, "z").Val() {
					for _, name := range client.Keys(ctx, strings.TrimSuffix(meta, "m")+"*").Val() {
						old[name] = client.Dump(ctx, name).Val()
					}
				}
			}
			e := openEngine(t, sharedServer(t), cfg)
			e.OnStep(func(step string) error {
				if step == "retired" {
					return errCrash
				}
				return nil
			})
			require.ErrorIs(t, err1(e.Get(ctx, keysOf(tasks))), errCrash)
			for name, value := range old {
				require.NoError(t, client.RestoreReplace(ctx, name, 0, value).Err())
			}
			e = openEngine(t, sharedServer(t), cfg)
			require.NoError(t, err1(e.Get(ctx, keysOf(tasks))))
			requireLayout(t, e, topic, tasks)
			requireOneGeneration(t, e, topic, layoutTopics[topic])
			use(t, e, topic, tasks)
		})
	}
}

// A new slot refuses for good: somebody began to drop the topic, and that was lost. A call ends with an error that names the
// topic, and the topic can be dropped.
func TestAMigrationThatCanNotGoOnIsAnError(t *testing.T) {
	t.Parallel()
	client, cfg := sharedServer(t).client(t), redis.Config{Prefix: prefix(), PollInterval: -1}
	restore(t, client, cfg.Prefix, "moving")
	for _, meta := range client.Keys(ctx, cfg.Prefix+":{moving:*:m").Val() {
		if client.HSetNX(ctx, meta, "z", 1).Val() {
			require.NoError(t, client.Expire(ctx, meta, time.Hour).Err())
		}
	}
	e := openEngine(t, sharedServer(t), cfg)
	short, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := err1(e.Get(short, []engine.Key{{Topic: "moving", ID: "x"}}))
	require.ErrorContains(t, err, "topic moving has changed 50 times")
	require.NoError(t, e.DropTopic(ctx, "moving"))
	require.ErrorIs(t, err1(e.Count(ctx, "moving")), engine.ErrNotFound)
}
