package index_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/index"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

func TestMain(m *testing.M) {
	testmain.Parallel(4)        // they mostly wait
	goredis.SetLogger(silent{}) // servers are killed here
	// After a failure, the client's pool tries the server every second, also once after its own
	// Close.
	testserver.Main(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

const rest = time.Second // index's pause after a failure of the index

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func table(t *testing.T, path string) engine.Primary {
	e, err := sqlite.Open(path, sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func inMemory(t *testing.T) engine.Engine {
	e, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func over(t *testing.T, primary engine.Primary, in engine.Engine, cfg index.Config) *index.Engine {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	e, err := index.New(primary, in, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestAWheelInFrontOfATableDoesWhatEveryEngineMust(t *testing.T) {
	t.Parallel()
	primary := table(t, filepath.Join(t.TempDir(), "tasks.db"))
	enginetest.Run(t, over(t, primary, inMemory(t), index.Config{Scan: 100 * time.Millisecond}), enginetest.Options{})
}

// Two wheels in front of one table know nothing of each other.
func TestWhatTwoNodesSetIsRunOnceByOneOfThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	var mu sync.Mutex
	ran := map[string]int{}
	var centers []*timeout.Center
	for i := range 2 {
		e := over(t, table(t, path), inMemory(t), index.Config{Scan: 50 * time.Millisecond})
		center, err := timeout.New(e, timeout.Config{Node: fmt.Sprint(i), Poll: 20 * time.Millisecond, TTL: time.Second})
		require.NoError(t, err)
		require.NoError(t, center.Handle("orders", func(_ context.Context, task engine.Task) error {
			mu.Lock()
			defer mu.Unlock()
			ran[task.ID]++
			return nil
		}))
		runs(t, center)
		centers = append(centers, center)
	}
	for i := range 200 {
		_, err := centers[i%2].Set(t.Context(), engine.Task{Topic: "orders", ID: fmt.Sprint(i), After: time.Duration(i%10) * 100 * time.Millisecond})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(ran) == 200
	}, time.Minute, 10*time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	for id, times := range ran {
		require.Equal(t, 1, times, id)
	}
}

// One node's wheel hears of a pause. It does not hear of the end, if another node ends it.
func TestWhatOneNodePausesAnotherCanResume(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	cfg := index.Config{Scan: 50 * time.Millisecond}
	a, b := over(t, table(t, path), inMemory(t), cfg), over(t, table(t, path), inMemory(t), cfg)
	_, err := a.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
	require.NoError(t, err)
	_, err = a.Set(t.Context(), []engine.Task{{Topic: "orders", ID: "1"}})
	require.NoError(t, err)
	lease := func() int {
		batch, err := a.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "a", Max: 10, Lease: time.Minute})
		require.NoError(t, err)
		return len(batch.Leased)
	}
	_, err = a.Pause(t.Context(), "orders", true, time.Time{})
	require.NoError(t, err)
	require.Zero(t, lease())
	_, err = b.Pause(t.Context(), "orders", false, time.Time{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return lease() == 1 }, time.Minute, 10*time.Millisecond)
}

// The wheel does not know of a pause. What is due in it asks for nothing more often than a scan.
func TestAPauseOfDueTasksIsNotAskedAboutAgainAndAgain(t *testing.T) {
	const scan = 10 * time.Second
	e := over(t, table(t, filepath.Join(t.TempDir(), "tasks.db")), inMemory(t), index.Config{Scan: scan, Window: scan})
	_, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
	require.NoError(t, err)
	_, err = e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: "1"}})
	require.NoError(t, err)
	for _, pause := range []time.Duration{0, time.Hour, 9 * time.Second} {
		now, err := e.Now(t.Context())
		require.NoError(t, err)
		until := time.Time{}
		if pause > 0 {
			until = now.Add(pause)
		}
		_, err = e.Pause(t.Context(), "orders", true, until)
		require.NoError(t, err)
		require.Eventually(t, func() bool { // the wheel may have put the task off for a moment, for the pause before
			batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "n", Max: 1, Lease: time.Minute})
			require.NoError(t, err)
			require.Empty(t, batch.Leased)
			if next := batch.Now.Add(scan); pause == 0 || until.After(next) {
				return next.Equal(batch.Next)
			}
			return until.Equal(batch.Next)
		}, time.Minute, 10*time.Millisecond)
	}
}

func TestRedisInFrontOfATableDoesWhatEveryEngineMust(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.db")
	server := testserver.Redis(t)
	open := func(t *testing.T) engine.Engine {
		in, err := redis.Open(t.Context(), server.URL, redis.Config{})
		require.NoError(t, err)
		return over(t, table(t, path), in, index.Config{Scan: 100 * time.Millisecond})
	}
	enginetest.Run(t, open(t), enginetest.Options{Second: open})
}

// slow is a slow index. It hears late of outcomes, and its leases come late.
type slow struct{ engine.Engine }

const late = 50 * time.Millisecond

func (s slow) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	if len(ask.Settle) > 0 {
		time.Sleep(late)
	}
	batch, err := s.Engine.Lease(ctx, ask)
	if len(batch.Leased) > 0 {
		time.Sleep(late)
	}
	return batch, err
}

// A task due again is due at the primary's time, however late the index hears of it.
func TestASlowIndexMakesNothingLate(t *testing.T) {
	primary := table(t, filepath.Join(t.TempDir(), "tasks.db"))
	in, err := redis.Open(t.Context(), testserver.Redis(t).URL, redis.Config{}) // knows the next due time
	require.NoError(t, err)
	e := over(t, primary, slow{in}, index.Config{Scan: time.Minute, Window: time.Minute, CallTimeout: time.Minute})
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
	require.NoError(t, err)
	_, err = e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: "1"}})
	require.NoError(t, err)
	follow := func(due time.Time, lease time.Duration) engine.Leased {
		for {
			batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "n", Max: 1, Lease: lease})
			require.NoError(t, err)
			if len(batch.Leased) > 0 {
				return batch.Leased[0]
			}
			require.False(t, batch.Next.IsZero())
			if next := batch.Next; next.After(batch.Now) {
				require.LessOrEqual(t, next.UnixMilli(), due.UnixMilli())
				time.Sleep(next.Sub(batch.Now))
			}
		}
	}
	first := follow(time.Now(), 200*time.Millisecond)
	again := follow(first.Until, time.Minute)
	require.True(t, again.Again)

	settled, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "n", Settle: []engine.Outcome{
		{Token: again.Token, As: engine.Pending, After: 200 * time.Millisecond},
	}})
	require.NoError(t, err)
	require.Equal(t, []bool{true}, settled.Settled)
	tasks, err := e.Get(t.Context(), []engine.Key{first.Key()})
	require.NoError(t, err)
	follow(tasks[0].Until, time.Minute)
}

// broken is an index with a switch for failures.
type broken struct {
	engine.Engine
	down atomic.Bool
}

var errDown = errors.New("connection refused")

func (b *broken) Set(ctx context.Context, tasks []engine.Task) ([]engine.Answer, error) {
	if b.down.Load() {
		return nil, errDown
	}
	return b.Engine.Set(ctx, tasks)
}

func (b *broken) Remove(ctx context.Context, removals []engine.Removal) ([]engine.Answer, error) {
	if b.down.Load() {
		return nil, errDown
	}
	return b.Engine.Remove(ctx, removals)
}

func (b *broken) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	if b.down.Load() {
		return engine.Batch{}, errDown
	}
	return b.Engine.Lease(ctx, ask)
}

// A table finds a moved task at its earlier time. A scan with a limit then says nothing of the times before the
// later one.
func TestAMovedTaskDoesNotHideTheTasksBehindIt(t *testing.T) {
	primary := withOrders(t)
	_, err := primary.Set(t.Context(), []engine.Task{{Topic: "orders", ID: "moved", After: time.Second}, {Topic: "orders", ID: "behind", After: 2 * time.Second}})
	require.NoError(t, err)
	_, err = primary.Move(t.Context(), []engine.Move{{Key: engine.Key{Topic: "orders", ID: "moved"}, After: 10 * time.Minute}})
	require.NoError(t, err)
	e := over(t, primary, inMemory(t), index.Config{Window: time.Hour, Scan: time.Hour / 2, Limit: 1})
	require.NoError(t, takes(t.Context(), own{e}, "behind", time.Minute))
}

// latePrimary leases so late that the leases claimed before have ended.
type latePrimary struct{ engine.Primary }

func (e latePrimary) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	if ask.Max > 0 {
		time.Sleep(10 * ask.Lease)
	}
	return e.Primary.Lease(ctx, ask)
}

// With more due tasks than Limit, a call leases from the index and then from the table.
func TestACallLeasesATaskOnce(t *testing.T) {
	primary := withOrders(t)
	_, err := primary.Set(t.Context(), []engine.Task{{Topic: "orders", ID: "1"}, {Topic: "orders", ID: "2"}})
	require.NoError(t, err)
	e := over(t, latePrimary{primary}, inMemory(t), index.Config{Window: time.Hour, Scan: time.Hour / 2, Limit: 1})
	batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "a", Max: 10, Lease: time.Millisecond})
	require.NoError(t, err)
	again := 0
	for _, leased := range batch.Leased {
		again += leased.Attempts - 1
	}
	require.Len(t, batch.Leased, 2)
	require.Equal(t, 1, again)
}

// A center asks again at Next, or after its Poll. That may be longer than the window.
func TestATaskBehindTheWindowIsAskedForInTime(t *testing.T) {
	const window = 100 * time.Millisecond
	primary := withOrders(t)
	_, err := primary.Set(t.Context(), []engine.Task{{Topic: "orders", ID: "1", After: time.Hour}})
	require.NoError(t, err)
	e := over(t, primary, inMemory(t), index.Config{Window: window, Scan: window / 2})
	batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "a", Max: 10, Lease: time.Minute})
	require.NoError(t, err)
	require.False(t, batch.Next.IsZero())
	require.LessOrEqual(t, batch.Next.Sub(batch.Now), window)
}

// rig is a center on an engine with a broken index.
type rig struct {
	*timeout.Center
	primary engine.Primary
	index   *broken
	mu      sync.Mutex
	ran     map[string]int
}

func newRig(t *testing.T, cfg index.Config) *rig {
	r := &rig{primary: table(t, filepath.Join(t.TempDir(), "tasks.db")), index: &broken{Engine: inMemory(t)}, ran: map[string]int{}}
	center, err := timeout.New(over(t, r.primary, r.index, cfg), timeout.Config{Poll: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	r.Center = center
	require.NoError(t, center.Handle("orders", func(_ context.Context, task engine.Task) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ran[task.ID]++
		return nil
	}))
	return r
}

func (r *rig) run(t *testing.T) { runs(t, r.Center) }

func runs(t *testing.T, center *timeout.Center) {
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- center.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ran) })
}

func (r *rig) set(t *testing.T, id string, after time.Duration) {
	_, err := r.Set(t.Context(), engine.Task{Topic: "orders", ID: id, After: after})
	require.NoError(t, err)
}

func (r *rig) times(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ran[id]
}

// A scan finds tasks missing in the index.
func TestWhatTheIndexWasNotToldOfIsFound(t *testing.T) {
	r := newRig(t, index.Config{Scan: 50 * time.Millisecond})
	r.set(t, "before", 100*time.Millisecond)
	r.index.down.Store(true)
	r.set(t, "lost", 100*time.Millisecond)
	r.set(t, "before", 300*time.Millisecond) // the index has the other version
	_, err := r.Set(t.Context(), engine.Task{Topic: "orders", ID: "removed"})
	require.NoError(t, err)
	_, err = r.Remove(t.Context(), engine.Key{Topic: "orders", ID: "removed"})
	require.NoError(t, err)
	r.index.down.Store(false)
	r.run(t)
	require.Eventually(t, func() bool { return r.times("lost") == 1 && r.times("before") == 1 }, time.Minute, 10*time.Millisecond)
	time.Sleep(200 * time.Millisecond)
	require.Zero(t, r.times("removed"))
	require.Equal(t, 1, r.times("before"))
}

// A lease has ended in the primary. The index was not told, and its entry may wait there for an hour.
func TestALeaseWhoseEndTheIndexWasNotToldOfHidesNoTask(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, e *index.Engine, leased engine.Leased){
		"tried again": func(t *testing.T, e *index.Engine, leased engine.Leased) {
			batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "a", Settle: []engine.Outcome{{Token: leased.Token, As: engine.Pending}}})
			require.NoError(t, err)
			require.Equal(t, []bool{true}, batch.Settled)
		},
		"set again": func(t *testing.T, e *index.Engine, leased engine.Leased) {
			_, err := e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: leased.ID}})
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := &broken{Engine: inMemory(t)}
			e := over(t, table(t, filepath.Join(t.TempDir(), "tasks.db")), in, index.Config{Scan: 50 * time.Millisecond})
			_, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
			require.NoError(t, err)
			_, err = e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: "1"}})
			require.NoError(t, err)
			ask := engine.Ask{Topic: "orders", Node: "a", Max: 10, Lease: time.Hour}
			lease := func() (leased []engine.Leased) {
				batch, err := e.Lease(t.Context(), ask)
				require.NoError(t, err)
				return batch.Leased
			}
			leased := lease()
			require.Len(t, leased, 1)
			in.down.Store(true)
			end(t, e, leased[0])
			in.down.Store(false)
			time.Sleep(rest) // meanwhile the primary is asked
			require.Eventually(t, func() bool { return len(lease()) == 1 }, time.Minute, 10*time.Millisecond)
			for range 10 {
				require.Empty(t, lease())
			}
		})
	}
}

func TestAnIndexThatIsEmptiedOrGoneForAWhileLosesNothing(t *testing.T) {
	r := newRig(t, index.Config{Scan: 50 * time.Millisecond})
	for i := range 50 {
		r.set(t, fmt.Sprint(i), time.Duration(i)*20*time.Millisecond)
	}
	r.run(t)
	time.Sleep(200 * time.Millisecond)
	r.index.down.Store(true)
	time.Sleep(200 * time.Millisecond)
	require.NoError(t, r.index.DropTopic(t.Context(), "orders"))
	r.index.down.Store(false)
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.ran) == 50
	}, time.Minute, 10*time.Millisecond)
	for i := range 50 {
		require.Equal(t, 1, r.times(fmt.Sprint(i)))
	}
}

// The table is the overflow of the index: the index holds a few tasks, and only tasks due soon.
func TestTheIndexHasOnlyWhatIsDueSoonAndNotTooMuchOfIt(t *testing.T) {
	r := newRig(t, index.Config{Window: time.Second, Scan: 50 * time.Millisecond, Limit: 10})
	var tasks []engine.Task
	for i := range 200 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint("later-", i), After: time.Hour})
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint("soon-", i), After: time.Duration(5*i) * time.Millisecond})
	}
	_, err := r.primary.SetTopic(t.Context(), engine.Topic{Name: "orders"}, true)
	require.NoError(t, err)
	_, err = r.primary.Set(t.Context(), tasks) // by somebody else
	require.NoError(t, err)
	r.run(t)
	require.Eventually(t, func() bool {
		counts, err := r.index.Count(t.Context(), "orders")
		if !errors.Is(err, engine.ErrNotFound) { // the topic comes with its first entry
			require.NoError(t, err)
		}
		require.Less(t, counts.Pending, int64(50))
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.ran) == 200
	}, time.Minute, 10*time.Millisecond)
}

func TestABadConfigurationIsRefused(t *testing.T) {
	primary := table(t, filepath.Join(t.TempDir(), "tasks.db"))
	for _, cfg := range []index.Config{{Scan: 1}, {Window: time.Second, Scan: time.Minute}, {Limit: -1}, {CallTimeout: 1}, {CallTimeout: math.MaxInt64}} {
		_, err := index.New(primary, inMemory(t), cfg)
		require.ErrorIs(t, err, engine.ErrArgument)
	}
	_, err := index.New(nil, inMemory(t), index.Config{})
	require.ErrorIs(t, err, engine.ErrArgument)
	_, err = index.New(primary, nil, index.Config{})
	require.ErrorIs(t, err, engine.ErrArgument)
}

// The index hears of this process only. Other processes can set tasks, too.
func TestAnIndexHearsWhereThePrimaryDoes(t *testing.T) {
	for name, primary := range map[string]engine.Primary{
		"silent":  struct{ engine.Primary }{table(t, filepath.Join(t.TempDir(), "tasks.db"))},
		"hearing": hearing{table(t, filepath.Join(t.TempDir(), "tasks.db"))},
	} {
		t.Run(name, func(t *testing.T) {
			e := over(t, primary, inMemory(t), index.Config{})
			_, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, true)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			told := make(chan string, 100)
			ended := make(chan error, 1)
			go func() { ended <- e.Wake(ctx, func(topic string) { told <- topic }, func(engine.Key) {}) }()
			if name == "hearing" {
				require.Empty(t, <-told)
			} else {
				due := time.Now()
				require.Eventually(t, func() bool { // it is told of a time before all others, once it listens
					due = due.Add(-time.Second)
					_, err := e.Set(ctx, []engine.Task{{Topic: "orders", ID: "1", Due: due}})
					require.NoError(t, err)
					return len(told) > 0
				}, time.Minute, 10*time.Millisecond)
				require.Equal(t, "orders", <-told)
			}
			cancel()
			require.NoError(t, <-ended)
		})
	}
}

// hearing is a primary with a Wake.
type hearing struct{ engine.Primary }

func (hearing) Wake(ctx context.Context, wake func(topic string), _ func(engine.Key)) error {
	wake("")
	<-ctx.Done()
	return nil
}

// The entry of an index that was not told of a version has its time. The version before is gone when it is due, and the
// present one is leased at once.
func TestATaskThatAnotherNodeHasSetAtTheSameTimeIsNotLate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.db")
	var nodes [2]*index.Engine
	for i := range nodes {
		primary, err := sqlite.Open(path, sqlite.Config{})
		require.NoError(t, err)
		entries, err := memory.New(memory.Config{})
		require.NoError(t, err)
		nodes[i], err = index.New(primary, entries, index.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, nodes[i].Close()) })
	}
	ctx, told, other := t.Context(), nodes[0], nodes[1]
	_, err := told.SetTopic(ctx, engine.Topic{Name: "orders", Slots: 1}, false)
	require.NoError(t, err)
	due := time.Now().Add(1500 * time.Millisecond)
	set := func() {
		_, err := told.Set(ctx, []engine.Task{{Topic: "orders", ID: "1", Due: due, KeepDue: true}})
		require.NoError(t, err)
	}
	lease := func() engine.Batch {
		batch, err := other.Lease(ctx, engine.Ask{Topic: "orders", Node: "other", Lease: time.Minute, Max: 10})
		require.NoError(t, err)
		return batch
	}
	set()
	require.Empty(t, lease().Leased) // the other node's index has the first version
	set()
	time.Sleep(time.Until(due.Add(10 * time.Millisecond)))
	batch := lease()
	if len(batch.Leased) == 0 {
		require.Equal(t, batch.Now, batch.Next)
		batch = lease()
	}
	require.Len(t, batch.Leased, 1)
}
