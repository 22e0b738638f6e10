package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

var errCrash = errors.New("crash")

// crashing has one of so many steps of an engine fail, as if the process had ended there, and
// others stand still for a while.
func crashing(engine *redis.Engine, one int) *redis.Engine {
	engine.OnStep(func(string) error {
		switch rand.IntN(one) {
		case 0:
			return errCrash
		case 1:
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
		}
		return nil
	})
	return engine
}

// persist does something until no crash comes between.
func persist(t testing.TB, do func() error) {
	t.Helper()
	for {
		err := do()
		if errors.Is(err, errCrash) {
			continue
		}
		require.NoError(t, err)
		return
	}
}

// owner does random things to ids of its own, and knows what must come of them.
type owner struct {
	t       *testing.T
	engines []*redis.Engine
	name    string
	tasks   map[string]string // payloads of the pending ones
	seen    map[string]int64  // the last version of each
}

func (o *owner) engine() *redis.Engine { return o.engines[rand.IntN(len(o.engines))] }

func (o *owner) act(i int) {
	id := fmt.Sprintf("%s-%d", o.name, rand.IntN(300))
	payload, there := o.tasks[id]
	was := engine.None
	if there {
		was = engine.Pending
	}
	var answers []engine.Answer
	switch rand.IntN(4) {
	case 0:
		task := engine.Task{Topic: "orders", ID: id, Payload: fmt.Append(nil, i), Due: time.Now().Add(time.Hour)}
		persist(o.t, func() (err error) { answers, err = o.engine().Set(ctx, []engine.Task{task}); return err })
		o.tasks[id] = fmt.Sprint(i)
	case 1:
		persist(o.t, func() (err error) {
			answers, err = o.engine().Remove(ctx, []engine.Removal{{Key: key(id)}})
			return err
		})
		delete(o.tasks, id)
	case 2:
		move := engine.Move{Key: key(id), After: 2 * time.Hour}
		persist(o.t, func() (err error) { answers, err = o.engine().Move(ctx, []engine.Move{move}); return err })
	case 3:
		var tasks []engine.Task
		persist(o.t, func() (err error) { tasks, err = o.engine().Get(ctx, []engine.Key{key(id)}); return err })
		require.Equal(o.t, was, tasks[0].State, id)
		require.Equal(o.t, payload, string(tasks[0].Payload), id)
		return
	}
	require.Equal(o.t, was, answers[0].Was, id)
	if version := answers[0].Version; version != 0 {
		require.Greater(o.t, version, o.seen[id], id)
		o.seen[id] = version
	}
}

func TestATopicGrowsUnderLoadAndCrashesWithoutLosingOrDoublingATask(t *testing.T) {
	t.Parallel()
	first := orders(t, engine.Topic{Slots: 1})
	engines := []*redis.Engine{crashing(orders2(t, first), 20), crashing(orders2(t, first), 20), crashing(orders2(t, first), 20)}
	var all sync.WaitGroup
	var stop atomic.Bool
	owners := make([]*owner, 4)
	for n := range owners {
		o := &owner{t: t, engines: engines, name: fmt.Sprint("owner", n), tasks: map[string]string{}, seen: map[string]int64{}}
		owners[n] = o
		all.Go(func() {
			for i := 0; !stop.Load(); i++ {
				o.act(i)
			}
		})
	}
	fired := newTally()
	for n := range 2 {
		all.Go(func() { consume(t, engines, fmt.Sprint("node", n), fired, &stop) })
	}
	set := map[string]bool{} // whether it is known to be
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		for !stop.Load() {
			var tasks []engine.Task
			for range 20 {
				tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint("due-", len(set))})
				set[tasks[len(tasks)-1].ID] = false
			}
			answers, err := engines[rand.IntN(3)].Set(ctx, tasks)
			for i, task := range tasks {
				set[task.ID] = err == nil && answers[i].Err == nil
			}
			if !errors.Is(err, errCrash) {
				assert.NoError(t, err)
			}
		}
	}()
	for slots := 2; slots <= 64; slots *= 2 {
		time.Sleep(100 * time.Millisecond)
		persist(t, func() error {
			_, err := engines[rand.IntN(3)].SetTopic(ctx, engine.Topic{Name: "orders", Slots: slots}, false)
			return err
		})
	}
	time.Sleep(100 * time.Millisecond)
	stop.Store(true)
	<-produced
	all.Wait()

	var last atomic.Bool
	all.Go(func() { consume(t, []*redis.Engine{first}, "last", fired, &last) })
	wait := 0
	for _, o := range owners {
		wait += len(o.tasks)
	}
	assert.Eventually(t, func() bool { // also those with the lease of a node that crashed
		counts, err := first.Count(ctx, "orders")
		return assert.NoError(t, err) && counts == engine.Counts{Pending: int64(wait)}
	}, time.Minute, 50*time.Millisecond, "all that is due has run")
	last.Store(true)
	all.Wait()
	for purged := (engine.Purged{More: true}); purged.More; {
		var err error
		purged, err = first.Maintain(ctx)
		require.NoError(t, err)
	}
	requireAll(t, first, owners)
	for id, known := range set {
		if times := fired.times[id]; known || times > 0 {
			assert.Equal(t, 1, times, id)
		}
	}
	requireOneGeneration(t, first, "orders", 1)
}

// tally counts how many times tasks have fired.
type tally struct {
	mu    sync.Mutex
	times map[string]int
}

func newTally() *tally { return &tally{times: make(map[string]int)} }

func (f *tally) add(id string) {
	f.mu.Lock()
	f.times[id]++
	f.mu.Unlock()
}

// crashLease is the lease of a batch after the crash of its node.
const crashLease = 10 * time.Second

// consume leases what is due, has some of it fail once, extends some, and settles all.
func consume(t *testing.T, engines []*redis.Engine, node string, fired *tally, stop *atomic.Bool) {
	var settle []engine.Outcome
	var leasedAt time.Time
	for !stop.Load() || len(settle) > 0 {
		var batch engine.Batch
		most := 50
		if stop.Load() {
			most = 0
		}
		tries := 0
		persist(t, func() (err error) {
			tries++
			batch, err = engines[rand.IntN(len(engines))].Lease(ctx, engine.Ask{Topic: "orders", Node: node, Settle: settle, Max: most, Lease: crashLease})
			return err
		})
		for i, ok := range batch.Settled {
			if !ok && tries == 1 { // otherwise it may be settled, and the answer lost
				t.Errorf("%s: not settled after %v: %+v", node, time.Since(leasedAt), settle[i])
			}
		}
		settle = settle[:0]
		leasedAt = time.Now()
		var tokens []engine.Token
		for _, leased := range batch.Leased {
			tokens = append(tokens, leased.Token)
			outcome := engine.Outcome{Token: leased.Token, As: engine.Done}
			if leased.Attempts == 1 && rand.IntN(3) == 0 {
				outcome.As, outcome.Error = engine.Pending, "again"
			} else {
				require.True(t, leased.Again || leased.Attempts > 1 == (leased.Error == "again"))
				fired.add(leased.ID)
			}
			settle = append(settle, outcome)
		}
		var good []bool
		persist(t, func() (err error) {
			good, err = engines[rand.IntN(len(engines))].Extend(ctx, tokens, crashLease)
			return err
		})
		require.NotContains(t, good, false)
	}
}

// requireAll compares what is there with what the owners know.
func requireAll(t *testing.T, e engine.Engine, owners []*owner) {
	t.Helper()
	want := map[string]string{}
	for _, o := range owners {
		for id, payload := range o.tasks {
			want[id] = payload
		}
	}
	got := map[string]string{}
	query := engine.Query{Topic: "orders", State: engine.Pending, Limit: 1000}
	for {
		page, err := e.List(ctx, query)
		require.NoError(t, err)
		for _, task := range page.Tasks {
			require.NotContains(t, got, task.ID)
			got[task.ID] = string(task.Payload)
		}
		if query.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	require.Equal(t, want, got)
	counts, err := e.Count(ctx, "orders")
	require.NoError(t, err)
	require.Equal(t, engine.Counts{Pending: int64(len(want))}, counts)
}

// A later version may have phases of its own.
func TestATopicInAnUnknownPhaseIsAnError(t *testing.T) {
	t.Parallel()
	e := orders(t, engine.Topic{})
	client, hash := sharedServer(t).client(t), e.Prefix()+":{topics}:t"
	raw := changed(t, client.HGet(ctx, hash, "orders").Val(), map[string]any{"phase": "melting"})
	require.NoError(t, client.HSet(ctx, hash, "orders", raw).Err())
	short, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := orders2(t, e).Get(short, []engine.Key{key("1")})
	require.ErrorContains(t, err, `"melting"`)
	_, err = e.Pause(short, "orders", true, time.Time{})
	require.ErrorContains(t, err, `"melting"`)
	require.ErrorContains(t, e.DropTopic(short, "orders"), `"melting"`)
	require.Equal(t, raw, client.HGet(ctx, hash, "orders").Val())
}

// A batch of any length may find all of its tasks in one slot of a version before.
func TestALargeBatchMovesItsTasksFromOneOldSlot(t *testing.T) {
	t.Parallel()
	e := openEngine(t, sharedServer(t), redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 1})
	const many = 9000 // more than Lua can unpack
	tasks, keys := make([]engine.Task, many), make([]engine.Key, many)
	for i := range tasks {
		tasks[i] = engine.Task{Topic: "orders", ID: fmt.Sprint(i), After: time.Hour}
		keys[i] = tasks[i].Key()
	}
	_, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	growBefore(t, sharedServer(t).client(t), e, 2)
	answers, err := e.Remove(ctx, removals(keys))
	require.NoError(t, err)
	for i, answer := range answers {
		require.NoError(t, answer.Err)
		require.Equal(t, engine.Pending, answer.Was, keys[i].ID)
	}
}

// slotKey returns the key of a topic's only slot with that last part.
func slotKey(t testing.TB, client *goredis.Client, e *redis.Engine, part string) string {
	t.Helper()
	keys := client.Keys(ctx, e.Prefix()+":{orders:*:"+part).Val()
	require.Len(t, keys, 1)
	return keys[0]
}

// A topic with millions of tasks grows, and somebody opens a list. Others change some tasks meanwhile.
func TestAPageOfATopicThatGrowsMovesNothing(t *testing.T) {
	t.Parallel()
	const many, limit = 800, 50
	for name, meanwhile := range map[string]func(t *testing.T, e *redis.Engine){
		"nobody": func(*testing.T, *redis.Engine) {},
		"others": func(t *testing.T, e *redis.Engine) {
			_, err := e.Maintain(ctx)
			require.NoError(t, err)
			id := fmt.Sprint("changes-", rand.IntN(many))
			_, err = e.Remove(ctx, removals([]engine.Key{key(id)}))
			require.NoError(t, err)
			set(t, e, engine.Task{ID: id, After: 30 * time.Minute})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := orders(t, engine.Topic{Slots: 1})
			due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
			var tasks []engine.Task
			for i := range many {
				at := due.Add(time.Duration(max(0, i-many/2)) * time.Millisecond) // half are due at the same time
				tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint("stays-", i), Due: at}, engine.Task{Topic: "orders", ID: fmt.Sprint("changes-", i), Due: at})
			}
			setAll(t, e, tasks)
			client := sharedServer(t).client(t)
			old := slotKey(t, client, e, "b")
			seen := map[string]bool{}
			query := engine.Query{Topic: "orders", State: engine.Pending, Limit: limit}
			next := func() {
				page, err := e.List(ctx, query)
				require.NoError(t, err)
				for _, task := range page.Tasks {
					if strings.HasPrefix(task.ID, "stays-") {
						require.False(t, seen[task.ID], "%s is there twice", task.ID)
						seen[task.ID] = true
					}
				}
				query.Cursor = page.Next
			}
			next()
			withTopic(t, e, engine.Topic{Slots: 4})
			other := orders2(t, e)
			for query.Cursor != "" {
				before := client.HLen(ctx, old).Val()
				next()
				require.Equal(t, before, client.HLen(ctx, old).Val())
				meanwhile(t, other)
			}
			require.Len(t, seen, many)
		})
	}
}
