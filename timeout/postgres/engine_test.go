package postgres_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

func schemaOf(e *postgres.Engine) string { return e.Schema() }

func key(id string) engine.Key { return engine.Key{Topic: "orders", ID: id} }

func set(t testing.TB, e *postgres.Engine, tasks ...engine.Task) []engine.Answer {
	t.Helper()
	for i := range tasks {
		tasks[i].Topic = "orders"
	}
	answers, err := e.Set(context.Background(), tasks)
	require.NoError(t, err)
	for _, answer := range answers {
		require.NoError(t, answer.Err)
	}
	return answers
}

func get(t testing.TB, e *postgres.Engine, id string) engine.Task {
	t.Helper()
	tasks, err := e.Get(context.Background(), []engine.Key{key(id)})
	require.NoError(t, err)
	return tasks[0]
}

func leaseBatch(t testing.TB, e *postgres.Engine, most int, lease time.Duration, settle ...engine.Outcome) engine.Batch {
	t.Helper()
	batch, err := e.Lease(context.Background(), engine.Ask{Topic: "orders", Node: "node-1", Max: most, Lease: lease, Settle: settle})
	require.NoError(t, err)
	return batch
}

// leaseOne leases the only task, due now or soon.
func leaseOne(t testing.TB, e *postgres.Engine, lease time.Duration) engine.Leased {
	t.Helper()
	var batch engine.Batch
	require.Eventually(t, func() bool {
		batch = leaseBatch(t, e, 1, lease)
		return len(batch.Leased) == 1
	}, time.Minute, time.Millisecond)
	return batch.Leased[0]
}

func TestAClosedEngineRefusesAllCalls(t *testing.T) {
	e, err := postgres.Open(t.Context(), sharedURL(t), postgres.Config{Schema: newSchema()})
	require.NoError(t, err)
	waking := make(chan error, 1)
	go func() { waking <- e.Wake(context.Background(), func(string) {}, func(engine.Key) {}) }()
	require.NoError(t, e.Close())
	require.NoError(t, e.Close())
	require.ErrorIs(t, <-waking, engine.ErrClosed)
	_, err = e.Topics(t.Context())
	require.ErrorIs(t, err, engine.ErrClosed)
	_, err = e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: "1"}})
	require.ErrorIs(t, err, engine.ErrClosed)
	_, err = e.Lease(t.Context(), engine.Ask{Topic: "orders"})
	require.ErrorIs(t, err, engine.ErrClosed)
	_, err = e.Now(t.Context())
	require.ErrorIs(t, err, engine.ErrClosed)
	_, err = e.Heartbeat(t.Context(), engine.Node{Name: "n"}, time.Second)
	require.ErrorIs(t, err, engine.ErrClosed)
	require.ErrorIs(t, e.Wake(t.Context(), func(string) {}, func(engine.Key) {}), engine.ErrClosed)
}

func TestWhatCanNotBeUsedIsRefusedAndTellsNoPassword(t *testing.T) {
	for _, schema := range []string{"1a", "a-b", `a"b`, "ü", strings.Repeat("a", 51)} {
		_, err := postgres.Open(t.Context(), sharedURL(t), postgres.Config{Schema: schema})
		require.ErrorIs(t, err, engine.ErrArgument, schema)
	}
	for _, url := range []string{"postgres://u:secret@host:port/db", "postgres://u:secret@[::1/db", "host=h password=secret port=x", "postgres://u:secret@h/db?sslmode=never"} {
		_, err := postgres.Open(t.Context(), url, postgres.Config{})
		require.ErrorIs(t, err, engine.ErrArgument, url)
		require.NotContains(t, err.Error(), "secret")
		_, err = postgres.Open(t.Context(), sharedURL(t), postgres.Config{ListenURL: url})
		require.ErrorIs(t, err, engine.ErrArgument, url)
		require.NotContains(t, err.Error(), "secret")
	}
}

// A server that hangs takes connections, since the kernel does. Whoever opens an engine may wait for longer.
func TestAServerThatNeverAnswersIsAnErrorInTime(t *testing.T) {
	t.Parallel()
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer hung.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	_, err = postgres.Open(ctx, "postgres://u@"+hung.Addr().String()+"/d?sslmode=disable", postgres.Config{})
	require.Error(t, err)
	require.NoError(t, ctx.Err())
}

func TestManyCanMakeTheTablesAtOnceAndALaterVersionIsRefused(t *testing.T) {
	schema := newSchema()
	var group errgroup.Group
	for range 6 {
		group.Go(func() error {
			e, err := postgres.Open(context.Background(), sharedURL(t), postgres.Config{Schema: schema})
			if err != nil {
				return err
			}
			return e.Close()
		})
	}
	require.NoError(t, group.Wait())
	pool := newPool(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO `+schema+`.hw_migrations VALUES (1000)`)
	require.NoError(t, err)
	_, err = postgres.New(t.Context(), pool, postgres.Config{Schema: schema})
	require.ErrorIs(t, err, engine.ErrArgument)
	require.ErrorContains(t, err, "1000")
}

func TestWithoutASchemaTheSearchPathTells(t *testing.T) {
	schema := newSchema()
	_, err := newPool(t).Exec(t.Context(), `CREATE SCHEMA `+schema)
	require.NoError(t, err)
	e, err := postgres.Open(t.Context(), sharedURL(t, "search_path="+schema), postgres.Config{})
	require.NoError(t, err)
	defer e.Close()
	require.Equal(t, schema, e.Schema())
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, true)
	require.NoError(t, err)
	set(t, e, engine.Task{ID: "1"})
}

func TestFullIsErrFullAndNothingIsLost(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	set(t, e, engine.Task{ID: "1"})
	pool := newPool(t)
	_, err := pool.Exec(t.Context(), fmt.Sprintf(`CREATE FUNCTION %[1]s.no_room() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END$$;
		CREATE TRIGGER no_room BEFORE INSERT ON %[1]s.hw_tasks EXECUTE FUNCTION %[1]s.no_room()`, e.Schema()))
	require.NoError(t, err)
	_, err = e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: "2"}})
	require.ErrorIs(t, err, engine.ErrFull)
	require.ErrorIs(t, e.Ready(t.Context()), engine.ErrFull)
	leased := leaseOne(t, e, time.Minute)
	require.Equal(t, []bool{true}, leaseBatch(t, e, 0, 0, engine.Outcome{Token: leased.Token, As: engine.Done}).Settled)
	require.Eventually(t, func() bool { return e.Ready(t.Context()) == nil }, time.Minute, 100*time.Millisecond, "nothing was refused for a while")
}

func TestSettersOfTheSameKeysInDifferentOrderDoNotDeadlock(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	const goroutines, keys, rounds = 8, 60, 15
	var mu sync.Mutex
	versions := map[int64]bool{}
	var fresh atomic.Int64
	var group errgroup.Group
	for g := range goroutines {
		group.Go(func() error {
			for round := range rounds {
				tasks := make([]engine.Task, keys)
				all := make([]engine.Removal, keys)
				for i := range tasks {
					n := (i*(2*g+1) + round) % keys // another order in each
					tasks[i] = engine.Task{Topic: "orders", ID: fmt.Sprint(n), IfAbsent: i%5 == 0, After: time.Duration(i%2) * time.Hour}
					all[i].Key = tasks[i].Key()
				}
				answers, err := e.Set(context.Background(), tasks)
				if err != nil {
					return err
				}
				mu.Lock()
				for i, answer := range answers {
					if tasks[i].IfAbsent && answer.Was != engine.None {
						continue
					}
					if versions[answer.Version] {
						mu.Unlock()
						return fmt.Errorf("version %d was given twice", answer.Version)
					}
					versions[answer.Version] = true
					if answer.Was == engine.None {
						fresh.Add(1)
					}
				}
				mu.Unlock()
				switch (g + round) % 4 {
				case 0:
					removed, err := e.Remove(context.Background(), all)
					if err != nil {
						return err
					}
					for _, answer := range removed {
						if answer.Was != engine.None {
							fresh.Add(-1)
						}
					}
				case 1:
					batch, err := e.Lease(context.Background(), engine.Ask{Topic: "orders", Node: "n", Max: 20, Lease: time.Minute})
					if err != nil {
						return err
					}
					var settle []engine.Outcome
					for i, leased := range batch.Leased {
						settle = append(settle, engine.Outcome{Token: leased.Token, As: []engine.State{engine.Done, engine.Pending}[i%2]})
					}
					batch, err = e.Lease(context.Background(), engine.Ask{Topic: "orders", Settle: settle})
					if err != nil {
						return err
					}
					for i, ok := range batch.Settled {
						if ok && settle[i].As == engine.Done {
							fresh.Add(-1)
						}
					}
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	counts, err := e.Count(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, fresh.Load(), counts.Pending+counts.Running, "each answer tells whether a task came or went")
}

func TestTextThatPostgreSQLCanNotKeepIsKeptAlmost(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	set(t, e, engine.Task{ID: "1"})
	leased := leaseOne(t, e, time.Minute)
	batch := leaseBatch(t, e, 0, 0, engine.Outcome{Token: leased.Token, As: engine.Dead, Error: "a\x00b\xffc"})
	require.True(t, batch.Settled[0])
	require.Equal(t, "a\ufffdb\ufffdc", get(t, e, "1").Error)
}

func TestAnAttemptWhoseLeaseExpiresIsLogged(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders", Retries: 1})
	set(t, e, engine.Task{ID: "1"})
	leaseOne(t, e, 20*time.Millisecond)
	require.True(t, leaseOne(t, e, 20*time.Millisecond).Again)
	last := leaseOne(t, e, time.Minute)
	require.True(t, leaseBatch(t, e, 0, 0, engine.Outcome{Token: last.Token, As: engine.Dead, Release: true, Error: last.Error}).Settled[0])
	log, err := e.Executions(t.Context(), key("1"), 10)
	require.NoError(t, err)
	require.Len(t, log, 2)
	require.Equal(t, 2, log[0].Attempt)
	require.Contains(t, log[0].Error, "node-1")
	require.Equal(t, log[0].Error, get(t, e, "1").Error)
}

func TestMaintenanceDeletesWhatIsLeftOfATopic(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	tasks := make([]engine.Task, 1200)
	for i := range tasks {
		tasks[i] = engine.Task{ID: fmt.Sprint(i)}
	}
	set(t, e, tasks...)
	leased := leaseOne(t, e, time.Minute)
	leaseBatch(t, e, 0, 0, engine.Outcome{Token: leased.Token, As: engine.Pending, Error: "no"})
	require.NoError(t, e.DropTopic(t.Context(), "orders"))
	pool := newPool(t)
	rows := func() (n int) {
		query := fmt.Sprintf(`SELECT (SELECT count(*) FROM %[1]s.hw_tasks) + (SELECT count(*) FROM %[1]s.hw_executions)`, e.Schema())
		require.NoError(t, pool.QueryRow(t.Context(), query).Scan(&n))
		return n
	}
	require.Equal(t, 1201, rows())
	calls := 0
	for purged := (engine.Purged{More: true}); purged.More; calls++ {
		var err error
		purged, err = e.Maintain(t.Context())
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, calls, 3, "a call's work is bounded")
	require.Eventually(t, func() bool {
		_, err := e.Maintain(t.Context())
		require.NoError(t, err)
		return rows() == 0
	}, time.Minute, time.Millisecond)
}

func TestATopicThatAnotherProcessHasDroppedIsForgotten(t *testing.T) {
	t.Parallel()
	e := openTopic(t, engine.Topic{Name: "orders"})
	_, err := e.SetTopic(t.Context(), engine.Topic{Name: "dropped"}, false)
	require.NoError(t, err)
	_, err = e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: "1"}, {Topic: "dropped", ID: "1"}})
	require.NoError(t, err)
	require.Equal(t, []string{"dropped", "orders"}, e.Known())
	require.NoError(t, open(t, e.Schema()).DropTopic(t.Context(), "dropped"))
	_, err = e.Topics(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"orders"}, e.Known())
}

func TestATopicThatHasGrownElsewhereIsLeasedFromByItsNewSlots(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders", Slots: 2})
	other := open(t, e.Schema())
	tasks := make([]engine.Task, 40)
	for i := range tasks {
		tasks[i] = engine.Task{ID: fmt.Sprint(i), Due: time.Unix(1, 0)}
	}
	set(t, e, tasks...)
	_, err := other.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 4}, false)
	require.NoError(t, err)
	batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "n", Max: 100, Lease: time.Minute, Slots: []int{2, 3}})
	require.NoError(t, err)
	require.NotEmpty(t, batch.Leased)
	for _, leased := range batch.Leased {
		require.GreaterOrEqual(t, engine.Slot(leased.ID, 4), 2)
	}
}

func TestAnIdleLeaseWritesNothing(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	set(t, e, engine.Task{ID: "1", After: time.Hour})
	ask := engine.Ask{Topic: "orders", Node: "n", Max: 10, Lease: time.Minute, Slots: []int{1, 2, 3}}
	pool := newPool(t)
	// Only writing transactions get a number, including those of autovacuum.
	transactions := func() (n int64) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT txid_snapshot_xmax(txid_current_snapshot())`).Scan(&n))
		return n
	}
	before := transactions()
	for range 100 {
		batch, err := e.Lease(t.Context(), ask)
		require.NoError(t, err)
		require.Empty(t, batch.Leased)
	}
	require.Less(t, transactions()-before, int64(50))
}

func TestAServerThatCrashesUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	server := testserver.Postgres(t) // its commits wait for the disk
	e, err := postgres.Open(t.Context(), server.URL, postgres.Config{})
	require.NoError(t, err)
	defer e.Close()
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, true)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var waking sync.WaitGroup
	var hears, woken atomic.Int64
	waking.Go(func() {
		_ = e.Wake(ctx, func(topic string) {
			if topic == "" {
				hears.Add(1)
			} else {
				woken.Add(1)
			}
		}, func(engine.Key) {})
	})
	var mu sync.Mutex
	acknowledged := map[string]int64{}
	versions := map[int64]bool{}
	var setters sync.WaitGroup
	var stop atomic.Bool
	for g := range 3 {
		setters.Go(func() {
			for n := 0; !stop.Load(); n++ {
				tasks := make([]engine.Task, 10)
				for i := range tasks {
					tasks[i] = engine.Task{Topic: "orders", ID: fmt.Sprintf("%d-%d-%d", g, n, i)}
				}
				answers, err := e.Set(ctx, tasks)
				if err != nil {
					time.Sleep(20 * time.Millisecond)
					continue
				}
				mu.Lock()
				for i, answer := range answers {
					require.False(t, versions[answer.Version])
					versions[answer.Version] = true
					acknowledged[tasks[i].ID] = answer.Version
				}
				mu.Unlock()
				time.Sleep(time.Millisecond)
			}
		})
	}
	have := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged)
	}
	for range 2 {
		want := have() + 200
		require.Eventually(t, func() bool { return have() > want }, time.Minute, 5*time.Millisecond)
		server.Kill(t)
		server.Restart(t)
	}
	want := have() + 200
	require.Eventually(t, func() bool { return have() > want }, time.Minute, 5*time.Millisecond)
	stop.Store(true)
	setters.Wait()
	heard := woken.Load()
	require.Eventually(t, func() bool {
		set(t, e, engine.Task{ID: "wake"})
		return woken.Load() > heard
	}, time.Minute, 20*time.Millisecond, "it listens again")
	require.GreaterOrEqual(t, hears.Load(), int64(2), "and says so, since it heard nothing meanwhile")
	for id, version := range acknowledged {
		require.Equal(t, version, get(t, e, id).Version, id)
	}
	cancel()
	waking.Wait()
}

func TestAnotherProcessIsWokenForWhatIsDueSoon(t *testing.T) {
	schema := newSchema()
	setter, waiter := open(t, schema), open(t, schema)
	_, err := setter.SetTopic(t.Context(), engine.Topic{Name: "orders"}, true)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	woken := make(chan string, 1000)
	done := make(chan error, 1)
	go func() { done <- waiter.Wake(ctx, func(topic string) { woken <- topic }, func(engine.Key) {}) }()
	require.Eventually(t, func() bool {
		set(t, setter, engine.Task{ID: "1", After: time.Second})
		select {
		case topic := <-woken:
			return topic == "orders"
		case <-time.After(50 * time.Millisecond):
			return false
		}
	}, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

// Large batches are tried as new tasks. If some are not new, only the server's log shows it.
func TestABatchOfWhichSomeAreNotNew(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	for round := range 4 {
		var tasks []engine.Task
		for i := range 300 {
			tasks = append(tasks, engine.Task{ID: fmt.Sprint(i + 100*round), After: time.Hour, IfAbsent: i%7 == 0})
		}
		for i, answer := range set(t, e, tasks...) {
			was := engine.None
			if round > 0 && i < 200 {
				was = engine.Pending
			}
			require.Equal(t, was, answer.Was, "round %d, task %d", round, i)
			require.Positive(t, answer.Version)
		}
	}
	counts, err := e.Count(t.Context(), "orders")
	require.NoError(t, err)
	require.EqualValues(t, 600, counts.Pending)
}

// Several processes set the same tasks as new ones at the same time.
func TestBatchesOfTheSameNewTasks(t *testing.T) {
	const setters, tasks = 4, 200
	engines := []*postgres.Engine{openTopic(t, engine.Topic{Name: "orders"})}
	for len(engines) < setters {
		engines = append(engines, open(t, schemaOf(engines[0])))
	}
	for round := range 5 {
		var all errgroup.Group
		var fresh atomic.Int64
		for _, e := range engines {
			all.Go(func() error {
				batch := make([]engine.Task, tasks)
				for i := range batch {
					batch[i] = engine.Task{Topic: "orders", ID: fmt.Sprintf("%d-%d", round, i), After: time.Hour}
				}
				answers, err := e.Set(context.Background(), batch)
				for _, answer := range answers {
					if answer.Was == engine.None {
						fresh.Add(1)
					}
				}
				return err
			})
		}
		require.NoError(t, all.Wait())
		require.EqualValues(t, tasks, fresh.Load(), "each is new to one of them")
	}
}

// 1970 is when the zero of many a protocol is.
func TestATaskThatIsDueSince1970HoldsNothingUp(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	set(t, e, engine.Task{ID: "zero", Due: time.UnixMilli(0)}, engine.Task{ID: "1", Due: time.Unix(1, 0)})
	batch := leaseBatch(t, e, 10, time.Minute)
	require.Len(t, batch.Leased, 2)
	set(t, e, engine.Task{ID: "zero", Due: time.UnixMilli(0)}, engine.Task{ID: "1", Due: time.Unix(1, 0)})
	batch = leaseBatch(t, e, 1, time.Minute)
	require.Equal(t, "zero", batch.Leased[0].ID)
	require.Equal(t, batch.Now, batch.Next, "there is more at once")
	require.Len(t, leaseBatch(t, e, 10, time.Minute).Leased, 1)
}

// A node with nothing due reads past so many tasks of others, and no more: then it helps.
func TestANodeDoesNotReadPastTheWholeBacklogOfOthers(t *testing.T) {
	const slots = 2
	e := openTopic(t, engine.Topic{Name: "orders", Slots: slots})
	ids := [slots][]string{}
	for n := 0; len(ids[0]) <= postgres.Window || len(ids[1]) == 0; n++ {
		slot := engine.Slot(fmt.Sprint(n), slots)
		ids[slot] = append(ids[slot], fmt.Sprint(n))
	}
	due := func(ids ...string) {
		tasks := make([]engine.Task, len(ids))
		for i, id := range ids {
			tasks[i] = engine.Task{ID: id, Due: time.Unix(1, 0)}
		}
		set(t, e, tasks...)
	}
	leased := func(slots ...int) engine.Batch {
		batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "n", Max: 7, Lease: time.Minute, Slots: slots})
		require.NoError(t, err)
		return batch
	}
	due(ids[0][:postgres.Window-1]...)
	batch := leased(1)
	require.Empty(t, batch.Leased, "the owner runs them")
	require.Zero(t, batch.Next)
	due(ids[0][postgres.Window-1:]...)
	batch = leased(1)
	require.Len(t, batch.Leased, 7)
	for _, one := range batch.Leased {
		require.Zero(t, engine.Slot(one.ID, slots))
	}
	require.False(t, batch.Next.After(batch.Now), "there are more")
	set(t, e, engine.Task{ID: ids[1][0], Due: time.Unix(0, 0)})
	batch = leased(1)
	require.Len(t, batch.Leased, 1)
	require.Equal(t, ids[1][0], batch.Leased[0].ID, "its own come first")
	require.Len(t, leased(0).Leased, 7)
}

func TestAPeekAtAnEmptyTopicKnowsOfNoPause(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	ctx := t.Context()
	now, err := e.Now(ctx)
	require.NoError(t, err)
	_, err = e.Pause(ctx, "orders", true, now.Add(200*time.Millisecond))
	require.NoError(t, err)
	for range 2 { // during it, and after that
		waits, err := e.Peek(ctx, []engine.Peek{{Topic: "orders"}})
		require.NoError(t, err)
		require.Equal(t, engine.NothingDue, waits[0])
		time.Sleep(300 * time.Millisecond)
	}
}
