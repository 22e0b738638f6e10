package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// moveTo moves pending tasks.
func moveTo(t testing.TB, e *postgres.Engine, due time.Time, ids ...string) []engine.Answer {
	t.Helper()
	moves := make([]engine.Move, len(ids))
	for i, id := range ids {
		moves[i] = engine.Move{Key: key(id), Due: due}
	}
	answers, err := e.Move(context.Background(), moves)
	require.NoError(t, err)
	for _, answer := range answers {
		require.Equal(t, engine.Pending, answer.Was)
	}
	return answers
}

// filed returns the time of a task in the index.
func filed(t testing.TB, pool *pgxpool.Pool, e *postgres.Engine, id string) time.Time {
	t.Helper()
	var at int64
	require.NoError(t, pool.QueryRow(context.Background(), `SELECT filed FROM `+e.Schema()+`.hw_tasks WHERE id = $1`, id).Scan(&at))
	return time.UnixMilli(at)
}

// in returns a time so far ahead, in whole milliseconds.
func in(d time.Duration) time.Time { return time.Now().Add(d).Truncate(time.Millisecond) }

func TestAMoveToALaterTimeTouchesNoIndex(t *testing.T) {
	e, pool := openTopic(t, engine.Topic{Name: "orders"}), newPool(t)
	first, later, last := in(time.Hour), in(2*time.Hour), in(3*time.Hour)
	set(t, e, engine.Task{ID: "1", Due: first})
	for _, due := range []time.Time{later, last, later} {
		require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := e.MoveTx(t.Context(), tx, []engine.Move{{Key: key("1"), Due: due}})
			require.NoError(t, err)
			var updates, hot int
			require.NoError(t, tx.QueryRow(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables
				WHERE schemaname = $1 AND relname = 'hw_tasks'`, e.Schema()).Scan(&updates, &hot))
			require.Positive(t, updates)
			require.Equal(t, updates, hot)
			return nil
		}))
		require.Equal(t, due, get(t, e, "1").Due)
		require.Equal(t, due, get(t, e, "1").Until)
		require.Equal(t, first, filed(t, pool, e, "1"))
	}

	earlier := in(time.Minute)
	moveTo(t, e, earlier, "1")
	require.Equal(t, earlier, filed(t, pool, e, "1"), "a move to an earlier time is one in the index")
	require.Equal(t, earlier, get(t, e, "1").Until)
}

// In the index many tasks, not due yet, stand before the due one.
func TestWhatWasMovedIsFiledAgainWhereItIsDueByTheIndex(t *testing.T) {
	const many = 2500
	for _, most := range []int{1, 100} {
		e, pool := openTopic(t, engine.Topic{Name: "orders"}), newPool(t)
		var tasks []engine.Task
		var ids []string
		for i := range many {
			ids = append(ids, fmt.Sprint("moved", i))
			tasks = append(tasks, engine.Task{ID: ids[i], Due: time.Unix(int64(i/10), 0)})
		}
		set(t, e, append(tasks, engine.Task{ID: "due", Due: time.Unix(many, 0)})...)
		later := in(time.Hour)
		moveTo(t, e, later, ids...)
		counts, err := e.Count(t.Context(), "orders")
		require.NoError(t, err)
		require.EqualValues(t, many+1, counts.Pending)
		require.EqualValues(t, 1, counts.Due)
		require.InDelta(t, time.Since(time.Unix(many, 0)), counts.Lag, float64(time.Minute))

		var leased []engine.Leased
		for range 10 + many/most { // a full batch ends a call early
			batch := leaseBatch(t, e, most, time.Minute)
			if leased = append(leased, batch.Leased...); batch.Next.After(batch.Now) {
				break
			}
		}
		require.Len(t, leased, 1)
		require.Equal(t, "due", leased[0].ID)
		require.Equal(t, later, filed(t, pool, e, ids[many/2]))
		batch := leaseBatch(t, e, 10, time.Minute)
		require.Empty(t, batch.Leased)
		require.Equal(t, leased[0].Until, batch.Next)
	}
}

func TestNextIsThatOfATaskThatWasMoved(t *testing.T) {
	for _, slots := range [][]int{nil, {engine.Slot("1", 2), engine.Slot("2", 2)}} {
		e := openTopic(t, engine.Topic{Name: "orders", Slots: 2})
		next := func() time.Time {
			batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "n", Max: 10, Lease: time.Minute, Slots: slots})
			require.NoError(t, err)
			require.Empty(t, batch.Leased)
			return batch.Next
		}
		first, second, third := in(time.Hour), in(2*time.Hour), in(3*time.Hour)
		set(t, e, engine.Task{ID: "1", Due: first}, engine.Task{ID: "2", Due: second})
		require.Equal(t, first, next())
		moveTo(t, e, third, "1")
		require.Equal(t, second, next())
		moveTo(t, e, third.Add(time.Hour), "2")
		require.Equal(t, third, next())
		moveTo(t, e, time.Unix(1, 0), "1")
		moveTo(t, e, second, "1")
		require.Equal(t, second, next(), "it is filed again")
	}
}

func TestListsAreInOrderWhereMuchWasMoved(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders", Slots: 2})
	base, until := in(time.Hour), in(time.Hour).Add(40*time.Second)
	const count = 200
	var tasks []engine.Task
	for i := range count {
		tasks = append(tasks, engine.Task{ID: fmt.Sprint(i), Due: base.Add(time.Duration(rand.IntN(50)) * time.Second)})
	}
	set(t, e, tasks...)
	want := map[string]time.Time{}
	for i, task := range tasks {
		want[task.ID] = task.Due
		if i%3 > 0 {
			want[task.ID] = base.Add(time.Duration(rand.IntN(100)) * time.Second)
			moveTo(t, e, want[task.ID], task.ID)
		}
	}
	before := 0
	for _, due := range want {
		if due.Before(until) {
			before++
		}
	}
	for _, limit := range []int{7, 50, 1000} {
		got, last := map[string]time.Time{}, time.Time{}
		query := engine.Query{Topic: "orders", State: engine.Pending, Limit: limit}
		for more := true; more; more = query.Cursor != "" {
			page, err := e.List(t.Context(), query)
			require.NoError(t, err)
			require.True(t, len(page.Tasks) == limit || page.Next == "", "it is full")
			for _, task := range page.Tasks {
				require.NotContains(t, got, task.ID)
				got[task.ID] = task.Until
				require.False(t, task.Until.Before(last))
				last = task.Until
			}
			query.Cursor = page.Next
		}
		require.Equal(t, want, got)
	}
	for _, limit := range []int{7, 50, 1000} {
		var got []engine.Wanted
		for cursor, more := "", true; more; more = cursor != "" {
			page, err := e.ScanBefore(t.Context(), "orders", nil, until, cursor, limit)
			require.NoError(t, err)
			got, cursor = append(got, page.Wanted...), page.Next
		}
		require.Len(t, got, before)
		require.True(t, slices.IsSortedFunc(got, func(a, b engine.Wanted) int { return a.At.Compare(b.At) }))
		for _, wanted := range got {
			require.Equal(t, want[wanted.ID], wanted.At)
			require.Equal(t, get(t, e, wanted.ID).Version, wanted.Version)
		}
	}
}

// listPages lists the pending tasks, and calls a function after each page.
func listPages(t *testing.T, e *postgres.Engine, limit int, after func(page int)) (all []engine.Task) {
	t.Helper()
	query := engine.Query{Topic: "orders", State: engine.Pending, Limit: limit}
	for n := 1; ; n++ {
		page, err := e.List(t.Context(), query)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Tasks), limit)
		all = append(all, page.Tasks...)
		after(n)
		if query.Cursor = page.Next; query.Cursor == "" {
			return all
		}
	}
}

// A list does not wait for a lock, and a server that takes no changes can be looked at.
func TestAListIsCompleteThoughMovedTasksCanNotBeFiledAgain(t *testing.T) {
	hinder := map[string][2]string{
		"locked":  {`SELECT FROM {s}.hw_tasks WHERE moved FOR UPDATE`, ``},
		"refused": {`CREATE FUNCTION {s}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$; CREATE TRIGGER refuse BEFORE UPDATE ON {s}.hw_tasks FOR EACH ROW EXECUTE FUNCTION {s}.refuse(); COMMIT; BEGIN`, `DROP TRIGGER refuse ON {s}.hw_tasks`},
	}
	for name, how := range hinder {
		for _, until := range []int{2, 1000} {
			t.Run(fmt.Sprint(name, "/pages=", until), func(t *testing.T) {
				e, pool := openTopic(t, engine.Topic{Name: "orders"}), newPool(t)
				base := in(time.Hour)
				var tasks []engine.Task
				for i := range 30 {
					tasks = append(tasks, engine.Task{ID: fmt.Sprint(i), Due: base.Add(time.Duration(i) * time.Second)})
				}
				set(t, e, tasks...)
				moveTo(t, e, base.Add(12*time.Second), "1", "2", "3", "6")
				moveTo(t, e, base.Add(time.Hour), "0", "4", "5")
				tx, err := pool.Begin(t.Context())
				require.NoError(t, err)
				defer tx.Rollback(context.Background())
				exec := func(sql string) {
					_, err := tx.Exec(t.Context(), strings.ReplaceAll(sql, "{s}", e.Schema()), pgx.QueryExecModeSimpleProtocol)
					require.NoError(t, err)
				}
				exec(how[0])
				got := listPages(t, e, 3, func(page int) {
					if page == until {
						exec(how[1])
						require.NoError(t, tx.Commit(t.Context()))
					}
				})
				require.True(t, slices.IsSortedFunc(got, func(a, b engine.Task) int { return a.Until.Compare(b.Until) }))
				ids := map[string]bool{}
				for _, task := range got {
					ids[task.ID] = true
				}
				require.Len(t, got, len(tasks))
				require.Len(t, ids, len(tasks))
			})
		}
	}
}

// A page may have no task, and then its cursor is further on.
func TestAListLooksAtABoundedNumberOfMovedTasksForAPage(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	_, err := newPool(t).Exec(t.Context(), `INSERT INTO `+e.Schema()+`.hw_tasks (filed, due, moved, version, lease, topic, attempts, slot, state, was, id, node, error)
		SELECT n % 3, 1000000 + n, true, n, 0, 1, 0, 0, 1, 0, n, '', '' FROM generate_series(1, 10000) n`)
	require.NoError(t, err)
	page, err := e.List(t.Context(), engine.Query{Topic: "orders", State: engine.Pending, Limit: 1})
	require.NoError(t, err)
	require.Empty(t, page.Tasks)
	page, err = e.List(t.Context(), engine.Query{Topic: "orders", State: engine.Pending, Limit: 1, Cursor: page.Next})
	require.NoError(t, err)
	require.Len(t, page.Tasks, 1)
	require.Equal(t, "1", page.Tasks[0].ID)
}

func TestAClaimOfATaskThatWasMovedIsNotEarly(t *testing.T) {
	e, pool := openTopic(t, engine.Topic{Name: "orders"}), newPool(t)
	set(t, e, engine.Task{ID: "1", Due: time.Unix(1, 0)})
	due := in(time.Hour)
	wanted := engine.Wanted{ID: "1", Version: moveTo(t, e, due, "1")[0].Version}
	claimed, err := e.Claim(t.Context(), "orders", "n", []engine.Wanted{wanted}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, []engine.Claimed{{At: due}}, claimed)
	require.Equal(t, due, filed(t, pool, e, "1"))

	due = in(time.Second)
	moveTo(t, e, time.Unix(1, 0), "1")
	wanted.Version = moveTo(t, e, due, "1")[0].Version
	require.Eventually(t, func() bool {
		claimed, err := e.Claim(t.Context(), "orders", "n", []engine.Wanted{wanted}, time.Minute)
		require.NoError(t, err)
		now, err := e.Now(t.Context())
		require.NoError(t, err)
		require.False(t, claimed[0].OK && now.Before(due))
		return claimed[0].OK
	}, time.Minute, time.Millisecond)
}

func TestAMoveAnswersForEachOfABatch(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	set(t, e, engine.Task{ID: "runs"})
	leaseOne(t, e, time.Minute)
	set(t, e, engine.Task{ID: "waits", After: time.Hour})
	first, second := in(2*time.Hour), in(3*time.Hour)
	answers, err := e.Move(t.Context(), []engine.Move{
		{Key: key("waits"), Due: first},
		{Key: key("runs"), Due: first},
		{Key: key("none"), Due: first},
		{Key: engine.Key{Topic: "none", ID: "1"}, Due: first},
	})
	require.NoError(t, err)
	var was []engine.State
	for _, answer := range answers {
		was = append(was, answer.Was)
	}
	require.Equal(t, []engine.State{engine.Pending, engine.Running, engine.None, engine.None}, was)
	require.Equal(t, first, get(t, e, "waits").Due)
	require.Equal(t, get(t, e, "waits").Version, answers[0].Version)
	answers, err = e.Move(t.Context(), []engine.Move{{Key: key("waits"), Due: second}, {Key: key("waits"), Due: first}})
	require.NoError(t, err)
	require.Equal(t, second, answers[0].Due)
	require.Greater(t, answers[1].Version, answers[0].Version)
	require.Equal(t, first, get(t, e, "waits").Due)
}

// The tables are of version 2, with a waiting task, and a process of that version still runs.
func TestTablesOfAnEarlierVersionAreBroughtUpToDate(t *testing.T) {
	schema, pool := newSchema(), newPool(t)
	exec := func(sql string) error {
		_, err := pool.Exec(t.Context(), strings.ReplaceAll(sql, "{s}", schema), pgx.QueryExecModeSimpleProtocol)
		return err
	}
	require.NoError(t, exec(`CREATE SCHEMA {s}; CREATE TABLE {s}.hw_migrations (version integer PRIMARY KEY); INSERT INTO {s}.hw_migrations VALUES (1), (2)`))
	for _, name := range []string{"0001_tables", "0002_spans"} {
		text, err := os.ReadFile("migrations/" + name + ".sql")
		require.NoError(t, err)
		require.NoError(t, exec(string(text)))
	}
	due := in(time.Hour)
	require.NoError(t, exec(fmt.Sprintf(`INSERT INTO {s}.hw_topics (name, attempts, paused, config) VALUES ('orders', 17, false, '{"name":"orders","slots":8}');
		INSERT INTO {s}.hw_tasks (at, due, version, lease, topic, attempts, slot, state, was, id, node, error)
		VALUES (%[1]d, %[1]d, nextval('{s}.hw_number'), 0, 1, 0, 0, 1, 0, 'old', '', '')`, due.UnixMilli())))
	const early = `UPDATE {s}.hw_tasks SET state = 2 WHERE state = 1 AND at <= 9999999999999` // as Lease did
	engine := open(t, schema)
	require.Equal(t, due, get(t, engine, "old").Until)
	require.Nil(t, get(t, engine, "old").Callback)
	later := in(2 * time.Hour)
	moveTo(t, engine, later, "old")
	require.Equal(t, later, get(t, engine, "old").Until)
	require.ErrorContains(t, exec(early), "column \"at\" does not exist", "a process of before can't run it early")
	moveTo(t, engine, time.Unix(1, 0), "old")
	leased := leaseOne(t, engine, time.Minute)
	require.Equal(t, "old", leased.ID)
	require.Zero(t, leased.Created, "nobody has written it down")
	require.Equal(t, 1, leased.Calls)
}
