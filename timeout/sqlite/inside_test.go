package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

func openInside(t *testing.T) *Engine {
	e, err := Open(filepath.Join(t.TempDir(), "tasks.db"), Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "t"}, false)
	require.NoError(t, err)
	return e
}

func plan(t *testing.T, e *Engine, query string, args ...any) string {
	var steps []string
	err := each(t.Context(), e.reader, "EXPLAIN QUERY PLAN "+query, args, func(rows *sql.Rows) error {
		var id, parent, unused int
		steps = append(steps, "")
		return rows.Scan(&id, &parent, &unused, &steps[len(steps)-1])
	})
	require.NoError(t, err)
	return strings.Join(steps, "\n")
}

// A context can end while a call reads, and then a row can't be scanned.
func TestARowThatCannotBeReadIsAnError(t *testing.T) {
	e := openInside(t)
	ctx, cancel := context.WithCancel(t.Context())
	all, err := collect(ctx, e.reader, "SELECT 1 UNION ALL SELECT 2", nil, func(rows *sql.Rows) (*int, error) {
		n := new(int)
		err := rows.Scan(n)
		for *n == 2 && err == nil { // until the rows are closed
			cancel()
			err = rows.Scan(n)
		}
		if err != nil {
			return nil, err
		}
		return n, nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []*int{new(1)}, all)

	err = e.write(t.Context(), func(s *session) error {
		_, err := s.ExecContext(t.Context(), "INSERT INTO hw_topics (name, config) VALUES ('u', '{')")
		return err
	})
	require.NoError(t, err)
	_, err = e.Topics(t.Context())
	require.ErrorContains(t, err, "configuration of topic number")
	_, err = e.Maintain(t.Context())
	require.ErrorContains(t, err, "configuration of topic number")
}

// TestEveryStatementIsDoneByIndex executes everything, then checks the plan of each prepared
// statement.
func TestEveryStatementIsDoneByIndex(t *testing.T) {
	e := openInside(t)
	ctx := t.Context()
	ask := engine.Ask{Topic: "t", Node: "n", Lease: time.Millisecond, Max: 2, Slots: []int{0, 1, 2, 3, 4, 5, 6}}
	for i := range 20 {
		_, err := e.Set(ctx, []engine.Task{{Topic: "t", ID: fmt.Sprint(i)}, {Topic: "t", ID: fmt.Sprint(i, "later"), After: time.Hour}})
		require.NoError(t, err)
		batch, err := e.Lease(ctx, ask)
		require.NoError(t, err)
		ask.Settle = nil
		for j, leased := range batch.Leased {
			ask.Settle = append(ask.Settle, engine.Outcome{Token: leased.Token, As: engine.State(1 + (i+j)%4), Release: i > 9})
		}
		if i%5 == 0 {
			ask.Settle = nil
			time.Sleep(2 * time.Millisecond)
		}
		if i == 10 {
			ask.Slots = nil
		}
	}
	keys := []engine.Key{{Topic: "t", ID: "1"}, {Topic: "t", ID: "2"}}
	_, err := e.Get(ctx, keys)
	require.NoError(t, err)
	_, err = e.Move(ctx, []engine.Move{{Key: engine.Key{Topic: "t", ID: "1later"}}})
	require.NoError(t, err)
	_, err = e.Replay(ctx, keys)
	require.NoError(t, err)
	_, err = e.List(ctx, engine.Query{Topic: "t", State: engine.Pending})
	require.NoError(t, err)
	for _, slots := range [][]int{nil, {1}} {
		page, err := e.ScanBefore(ctx, "t", slots, time.Now(), "", 5)
		require.NoError(t, err)
		_, err = e.Claim(ctx, "t", "n", page.Wanted, time.Minute)
		require.NoError(t, err)
	}
	_, err = e.Executions(ctx, keys[0], 1)
	require.NoError(t, err)
	_, err = e.Remove(ctx, []engine.Removal{{Key: keys[0]}, {Key: keys[1]}})
	require.NoError(t, err)
	_, err = e.SetTopic(ctx, engine.Topic{Name: "t", RetainLog: time.Millisecond}, false)
	require.NoError(t, err)
	_, err = e.Maintain(ctx)
	require.NoError(t, err)

	queries := make(map[string]bool)
	for query := range e.writer.stmts.Range {
		queries[query.(string)] = true
	}
	for query := range e.reader.stmts.Range {
		queries[query.(string)] = true
	}
	looked := 0
	for query := range queries {
		if !strings.Contains(query, "hw_tasks") || strings.Contains(query, "CREATE") || strings.Contains(query, "ALTER") || strings.HasPrefix(query, "INSERT") {
			continue
		}
		args := make([]any, strings.Count(query, "?"))
		for i := range args {
			args[i] = 1
		}
		text := plan(t, e, query, args...)
		require.NotContains(t, text, "SCAN hw_tasks", query)
		require.NotContains(t, text, "TEMP B-TREE FOR", query)
		looked++
	}
	require.Greater(t, looked, 15)
	for _, part := range []string{"(topic=? AND state=? AND at=? AND rowid>?)", "(topic=? AND state=? AND at>?)"} {
		require.Contains(t, plan(t, e, listQuery, 1, 1, 1, 1, 1), "hw_tasks_by_time "+part, "a page begins at its cursor")
	}
	require.Contains(t, plan(t, e, endedQuery, "[]"), "hw_tasks_by_time (topic=? AND state=? AND at<?)", "nothing is read of what stays")
	require.Contains(t, plan(t, e, loggedQuery, "[]"), "hw_executions_by_time (topic=? AND at<?)")
	require.Contains(t, plan(t, e, movedQuery, 1, 1, 1, 1, 1), "hw_tasks_by_time (topic=? AND state=? AND at=? AND rowid>?)")
	require.Contains(t, plan(t, e, "SELECT at FROM hw_tasks WHERE topic = ? AND state = 1 ORDER BY at, seq LIMIT 1", 1),
		"COVERING INDEX hw_tasks_by_time (topic=? AND state=?)")
}

func TestAKeptCountIsNotForATopicThatAnotherProcessDropped(t *testing.T) {
	r := newStepped(t)
	ctx := t.Context()
	require.NoError(t, r.e.write(ctx, func(s *session) error {
		_, err := s.ExecContext(ctx, `WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
			INSERT INTO hw_tasks (topic, id, hash, state, at, due, version) SELECT no, n, 0, 1, 0, 0, 1 FROM n, hw_topics`, manyTasks)
		return err
	}))
	counts, err := r.e.Count(ctx, "t")
	require.NoError(t, err)
	require.EqualValues(t, manyTasks, counts.Pending)
	require.NoError(t, r.other.DropTopic(ctx, "t"))
	_, err = r.e.Count(ctx, "t")
	require.ErrorIs(t, err, engine.ErrNotFound)
}

// A page may have no task, and then its cursor is further on.
func TestAListLooksAtABoundedNumberOfMovedTasksForAPage(t *testing.T) {
	e, ctx := openInside(t), t.Context()
	const many = refileRounds * chunk
	require.NoError(t, e.write(ctx, func(s *session) error {
		_, err := s.ExecContext(ctx, `WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
			INSERT INTO hw_tasks (topic, id, hash, state, at, due, version) SELECT no, n, 0, 1, n % 3, 1000000 + n, 1 FROM n, hw_topics`, many)
		return err
	}))
	query := engine.Query{Topic: "t", State: engine.Pending, Limit: 1}
	page, err := e.List(ctx, query)
	require.NoError(t, err)
	require.Empty(t, page.Tasks)
	query.Cursor = page.Next
	page, err = e.List(ctx, query)
	require.NoError(t, err)
	require.Len(t, page.Tasks, 1)
	require.Equal(t, "1", page.Tasks[0].ID)
	moved, err := column[int64](ctx, e.reader, "SELECT count(*) FROM hw_tasks WHERE due > at")
	require.NoError(t, err)
	require.Equal(t, []int64{0}, moved)
}

func TestAFullDiskIsErrFullUntilThereIsRoomAgain(t *testing.T) {
	e := openInside(t)
	ctx := t.Context()
	_, err := e.Set(ctx, []engine.Task{{Topic: "t", ID: "first"}})
	require.NoError(t, err)
	var pages int64
	_, err = one(ctx, e.writer, "PRAGMA page_count", nil, &pages)
	require.NoError(t, err)
	_, err = one(ctx, e.writer, fmt.Sprintf("PRAGMA max_page_count = %d", pages+20), nil, new(int64))
	require.NoError(t, err)
	kept := 0
	for ; err == nil; kept++ {
		require.Less(t, kept, 1000)
		_, err = e.Set(ctx, []engine.Task{{Topic: "t", ID: fmt.Sprint(kept), Payload: make([]byte, 10_000)}, {Topic: "t", ID: fmt.Sprint("other", kept)}})
	}
	require.ErrorIs(t, err, engine.ErrFull)
	counts, err := e.Count(ctx, "t")
	require.NoError(t, err)
	require.EqualValues(t, 1+2*(kept-1), counts.Pending, "what failed has had no effect")
	_, err = e.Remove(ctx, []engine.Removal{{Key: engine.Key{Topic: "t", ID: "0"}}})
	require.NoError(t, err)
	for range kept {
		batch, err := e.Lease(ctx, engine.Ask{Topic: "t", Max: 1, Lease: time.Minute})
		require.NoError(t, err)
		_, err = e.Lease(ctx, engine.Ask{Topic: "t", Settle: []engine.Outcome{{Token: batch.Leased[0].Token, As: engine.Done}}})
		require.NoError(t, err)
	}
	_, err = e.Set(ctx, []engine.Task{{Topic: "t", ID: "again"}})
	require.NoError(t, err)
}

func TestALeaseFromBeforeTheClockWasSteppedBackIsShortened(t *testing.T) {
	e := openInside(t)
	ctx := t.Context()
	_, err := e.Set(ctx, []engine.Task{{Topic: "t", ID: "x"}})
	require.NoError(t, err)
	batch, err := e.Lease(ctx, engine.Ask{Topic: "t", Max: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, batch.Leased, 1)
	until := func() time.Time {
		tasks, err := e.Get(ctx, []engine.Key{{Topic: "t", ID: "x"}})
		require.NoError(t, err)
		return tasks[0].Until
	}
	before := until()
	_, err = e.Maintain(ctx)
	require.NoError(t, err)
	require.Equal(t, before, until())
	require.NoError(t, e.write(ctx, func(s *session) error {
		_, err := s.ExecContext(ctx, "UPDATE hw_tasks SET at = at + 3600000")
		return err
	}))
	_, err = e.Maintain(ctx)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Minute), until(), 50*time.Second)
}

func TestARetryDoesNotWaitForAClockThatWasSteppedBack(t *testing.T) {
	for _, release := range []bool{false, true} {
		e := openInside(t)
		ctx := t.Context()
		_, err := e.Set(ctx, []engine.Task{{Topic: "t", ID: "x"}})
		require.NoError(t, err)
		batch, err := e.Lease(ctx, engine.Ask{Topic: "t", Max: 1, Lease: time.Minute})
		require.NoError(t, err)
		require.Len(t, batch.Leased, 1)
		require.NoError(t, e.write(ctx, func(s *session) error { // the task was set an hour ahead
			_, err := s.ExecContext(ctx, "UPDATE hw_tasks SET due = due + 3600000")
			return err
		}))
		again := engine.Outcome{Token: batch.Leased[0].Token, As: engine.Pending, Release: release}
		batch, err = e.Lease(ctx, engine.Ask{Topic: "t", Max: 1, Lease: time.Minute, Settle: []engine.Outcome{again}})
		require.NoError(t, err)
		require.Len(t, batch.Leased, 1, "the next attempt is due at once")
	}
}

func TestMembersFromBeforeTheClockWasSteppedBackEndInTheirTime(t *testing.T) {
	e := openInside(t)
	ctx := t.Context()
	_, err := e.Heartbeat(ctx, engine.Node{Name: "dead"}, 100*time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, e.write(ctx, func(s *session) error {
		_, err := s.ExecContext(ctx, "UPDATE hw_members SET until = until + 3600000")
		return err
	}))
	require.Eventually(t, func() bool {
		view, err := e.Heartbeat(ctx, engine.Node{Name: "alive"}, time.Minute)
		require.NoError(t, err)
		return len(view.Nodes) == 1
	}, time.Minute, 10*time.Millisecond, "the node that is dead is not a member for an hour")
}

func TestAnIdleEngineWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openInside(t)
		ctx := t.Context()
		_, err := e.Set(ctx, []engine.Task{{Topic: "t", ID: "x", After: time.Hour}})
		require.NoError(t, err)
		ask := engine.Ask{Topic: "t", Node: "n", Max: 10, Lease: time.Minute, Slots: []int{0, 1}}
		e.lock <- struct{}{} // nobody can write
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		for range 10 {
			_, err = e.Lease(ctx, ask)
			require.NoError(t, err)
			purged, err := e.Maintain(ctx)
			require.NoError(t, err)
			require.False(t, purged.More)
		}
		<-e.lock
	})
}

// A look without a due task takes no number.
func TestALookThatFindsNothingTakesNoNumber(t *testing.T) {
	e := openInside(t)
	ctx := t.Context()
	answers, err := e.Set(ctx, []engine.Task{{Topic: "t", ID: "x", After: time.Hour}})
	require.NoError(t, err)
	for range 3 {
		batch, err := e.Lease(ctx, engine.Ask{Topic: "t", Node: "n", Max: 10, Lease: time.Minute})
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(time.Hour), batch.Next, time.Minute)
	}
	var number int64
	_, err = one(ctx, e.reader, "SELECT value FROM hw_meta WHERE name = 'number'", nil, &number)
	require.NoError(t, err)
	require.Equal(t, answers[0].Version, number)
}

func FuzzPosition(f *testing.F) {
	f.Add(position{1, 2}.String())
	f.Add("////")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePosition(text)
		if err != nil {
			require.ErrorIs(t, err, engine.ErrArgument)
		} else if text != "" {
			require.Equal(t, text, p.String())
		}
	})
}

func TestWhatWaitsInOtherSlotsIsNotReadToTheEnd(t *testing.T) {
	e := openInside(t)
	ctx := t.Context()
	const many = lookAhead + 200
	var tasks []engine.Task
	for i := range many {
		tasks = append(tasks, engine.Task{Topic: "t", ID: fmt.Sprintf("{all in one}%d", i), After: time.Hour + time.Duration(i)*time.Second})
	}
	_, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	slot := engine.Slot("{all in one}", engine.DefaultSlots)
	other := []int{(slot + 1) % engine.DefaultSlots}

	batch, err := e.Lease(ctx, engine.Ask{Topic: "t", Max: 1, Lease: time.Minute, Slots: other})
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Hour+(lookAhead-1)*time.Second), batch.Next, time.Minute, "there is nothing before the last that was seen")

	batch, err = e.Lease(ctx, engine.Ask{Topic: "t", Max: 1, Lease: time.Minute, Slots: []int{slot}})
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Hour), batch.Next, time.Minute)

	for i := range tasks {
		tasks[i].After = 0
	}
	_, err = e.Set(ctx, tasks[:many-1])
	require.NoError(t, err)
	mine := ""
	for i := 0; mine == ""; i++ {
		if id := fmt.Sprint("mine", i); engine.Slot(id, engine.DefaultSlots) == other[0] {
			mine = id
		}
	}
	_, err = e.Set(ctx, []engine.Task{{Topic: "t", ID: mine}})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		batch, err := e.Lease(ctx, engine.Ask{Topic: "t", Max: 1, Lease: time.Minute, Slots: other})
		return err == nil && len(batch.Leased) == 1 && batch.Leased[0].ID == mine
	}, time.Minute, 5*time.Millisecond, "what is due is found behind all that is due in another slot")

	batch, err = e.Lease(ctx, engine.Ask{Topic: "t", Max: 1, Lease: time.Minute, Slots: []int{(slot + 2) % engine.DefaultSlots}})
	require.NoError(t, err)
	require.True(t, batch.Next.IsZero() || batch.Next.After(batch.Now))
}

// Each call of Maintain looks at all topics. With very many of them that takes longer than a deletion.
func TestMaintenanceServesManyTopicsInOneCall(t *testing.T) {
	e, ctx := openInside(t), t.Context()
	require.NoError(t, e.write(ctx, func(s *session) error {
		_, err := s.ExecContext(ctx, `WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
			INSERT INTO hw_topics (name, config) SELECT 'many ' || n, json_object('name', 'many ' || n) FROM n`, 3*chunk)
		if err != nil {
			return err
		}
		_, err = s.ExecContext(ctx, "INSERT INTO hw_tasks (topic, id, hash, state, at, due, version) SELECT no, 'x', 0, 3, 1, 1, 1 FROM hw_topics")
		return err
	}))
	purged, err := e.Maintain(ctx)
	require.NoError(t, err)
	require.False(t, purged.More)
	left, err := column[int64](ctx, e.reader, "SELECT count(*) FROM hw_tasks")
	require.NoError(t, err)
	require.Equal(t, []int64{0}, left)
}
