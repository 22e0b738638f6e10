package postgres_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/internal/cursor"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// The tables are empty and have no statistics: then a planner guesses wrong.
func TestEveryStatementUsesTheIndexThatItIsFor(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	sql := e.Statements()
	ids, numbers := []string{"a", "b"}, []int64{1, 2}
	topics, bools, shorts := []int32{1, 1}, []bool{false, true}, []int16{1, 1}
	const byKey, byTime = "hw_tasks_pkey", "hw_tasks_at"
	const logByKey, logByTime = "hw_executions_task", "hw_executions_at"
	for _, test := range []struct {
		name, sql, index, other string
		args                    []any
	}{
		{"lock", sql.Lock, byKey, byTime, []any{topics, ids}},
		{"get", sql.Get, byKey, byTime, []any{topics, ids}},
		{"move", sql.Move, byKey, byTime, []any{topics, ids, numbers, numbers, numbers}},
		{"delete", sql.Delete, byKey, byTime, []any{topics, ids, numbers, shorts, numbers}},
		{"remove", sql.Remove, byKey, byTime, []any{topics, ids, numbers, shorts, numbers}},
		{"replay", sql.Replay, byKey, byTime, []any{topics, ids}},
		{"extend", sql.Extend, byKey, byTime, []any{topics, ids, numbers, 1}},
		{"settledone", sql.SettleDone, byKey, byTime, []any{1, ids, numbers}},
		{"settle", sql.Settle, byKey, byTime, []any{1, ids, numbers, shorts, numbers, numbers, bools, bools, ids, numbers, numbers, true}},
		{"claim", sql.Claim, byKey, byTime, []any{1, ids, numbers, 1, "n", 1}},
		{"wanted", sql.Wanted, byKey, byTime, []any{1, ids, numbers}},
		{"lease", sql.Lease, byTime, byKey, []any{1, 0, 10, 1, "n", 10, 1, numbers}},
		{"leaseown", sql.LeaseOwn, byTime, byKey, []any{1, 0, 10, 1, "n", 10, 1, numbers, shorts, 7, 100}},
		{"peek", sql.Peek, byTime, byKey, []any{1, shorts, 7, 100, numbers}},
		{"look", sql.Look, byTime, byKey, []any{1}},
		{"list", sql.List, byTime, byKey, []any{"orders", 1, 0, "", 10, 1, 0, "", 10, true}},
		{"refile", sql.Refile, byTime, byKey, []any{"orders", 0, "", 10, ""}},
		{"shorten", sql.Shorten, byTime, byKey, []any{topics, 10}},
		{"count", sql.Count, byTime, byKey, []any{"orders"}},
		{"scanbefore", sql.ScanBefore, byTime, byKey, []any{"orders", 0, "", 10, nil, 7, 10}},
		{"set", sql.Set, byKey, byTime, []any{topics, ids, shorts, numbers, numbers, shorts, ids, [][]byte{nil, nil}}},
		{"set's log", sql.Set, logByKey, logByTime, []any{topics, ids, shorts, numbers, numbers, shorts, ids, [][]byte{nil, nil}}},
		{"executions", sql.Executions, logByKey, logByTime, []any{"orders", "a", 10}},
		{"purge", sql.Purge, byTime, byKey, []any{topics, numbers, numbers, 10}},
		{"purgelog", sql.PurgeLog, logByTime, logByKey, []any{topics, numbers, 10}},
		{"purge's log", sql.Purge, logByKey, logByTime, []any{topics, numbers, numbers, 10}},
		{"delete's log", sql.Delete, logByKey, logByTime, []any{topics, ids, numbers, shorts, numbers}},
		{"settledone's log", sql.SettleDone, logByKey, logByTime, []any{1, ids, numbers}},
		{"purgedead", sql.PurgeDead, byTime, byKey, []any{topics, numbers, 10}},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan := explain(t, e, "EXPLAIN", test.sql, test.args...)
			require.Contains(t, plan, test.index)
			require.NotContains(t, plan, test.other)
			require.NotContains(t, plan, "Seq Scan on hw_tasks")
			require.NotContains(t, plan, "Seq Scan on hw_executions")
			require.NotRegexp(t, `Filter: \(+(filed|at) <=`, plan, "the index ends where the time does")
			require.NotRegexp(t, `TID Cond: \(ctid = \w+_\d+\.place\)\n +[^ F]`, plan, "some servers do not compare a ctid again with what they lock")
			if test.name != "scanbefore" { // it merges two states
				require.NotRegexp(t, `Sort Key: [tk](_\d+)?\.filed`, plan, "the index has the order")
			}
		})
	}
}

// explain returns the plan of a statement, whatever its arguments. It takes back what the statement does.
func explain(t testing.TB, e *postgres.Engine, how, sql string, args ...any) string {
	t.Helper()
	tx, err := newPool(t).Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), e.Statements().Planner)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SET LOCAL plan_cache_mode = force_generic_plan")
	require.NoError(t, err)
	rows, err := tx.Query(t.Context(), how+" "+sql, args...)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}

// rowsRead returns how many rows of a table a statement reads.
func rowsRead(t testing.TB, e *postgres.Engine, table, sql string, args ...any) (read int) {
	t.Helper()
	type node struct {
		Relation string  `json:"Relation Name"`
		Rows     float64 `json:"Actual Rows"` // of a loop
		Loops    float64 `json:"Actual Loops"`
		Removed  float64 `json:"Rows Removed by Filter"`
		Plans    []node
	}
	var plans []struct{ Plan node }
	require.NoError(t, json.Unmarshal([]byte(explain(t, e, "EXPLAIN (ANALYZE, FORMAT JSON)", sql, args...)), &plans))
	var count func(node)
	count = func(n node) {
		if n.Relation == table {
			read += int((n.Rows + n.Removed) * n.Loops)
		}
		for _, child := range n.Plans {
			count(child)
		}
	}
	count(plans[0].Plan)
	return read
}

func TestTheLastPageOfAListReadsWhatTheFirstDoes(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	const count, limit = 2000, 200
	tasks := make([]engine.Task, count)
	for i := range tasks {
		tasks[i] = engine.Task{ID: fmt.Sprintf("%04d", i), Due: in(time.Hour)} // many at the same time
	}
	set(t, e, tasks...)
	moveTo(t, e, in(2*time.Hour), "0000", "0001", "1000") // without these, it reads from the start too
	query := engine.Query{Topic: "orders", State: engine.Pending, Limit: limit}
	read, seen, last := []int{}, 0, ""
	for more := true; more; more = query.Cursor != "" {
		at, id, err := cursor.Read(query.Cursor)
		require.NoError(t, err)
		read = append(read, rowsRead(t, e, "hw_tasks", e.Statements().List, "orders", 1, at, id, limit, engine.MaxPageBytes, at, id, limit, false))
		page, err := e.List(t.Context(), query)
		require.NoError(t, err)
		for _, task := range page.Tasks {
			seen, last = seen+1, task.ID
		}
		query.Cursor = page.Next
	}
	require.Equal(t, count, seen)
	require.Equal(t, "1000", last)
	require.LessOrEqual(t, slices.Max(read), limit, "%v", read)
}

func TestALookInSomeSlotsReadsUpToTheFirstTask(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders", Slots: 8})
	var tasks []engine.Task
	for i := range 3000 {
		tasks = append(tasks, engine.Task{ID: fmt.Sprint(i), Due: in(time.Hour + time.Duration(i)*time.Second)})
	}
	set(t, e, tasks...)
	of := func(slots ...int16) int {
		return rowsRead(t, e, "hw_tasks", e.Statements().Peek, 1, slots, 7, postgres.Window, postgres.UnknownFront)
	}
	require.Less(t, of(0, 2, 4, 6), 100)
	require.LessOrEqual(t, of(900), 1001, "no task is in such a slot")
	require.LessOrEqual(t, rowsRead(t, e, "hw_tasks", e.Statements().Peek, 1, nil, 7, nil, postgres.UnknownFront), 2)
}

func TestAVerbReadsItsOwnTopicsOnly(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	_, err := newPool(t).Exec(t.Context(), "INSERT INTO "+e.Schema()+".hw_topics (name, paused, config) SELECT 'other-' || n, false, '{}' FROM generate_series(1, 1000) n")
	require.NoError(t, err)
	set(t, e, engine.Task{ID: "a", After: time.Hour}, engine.Task{ID: "b", After: time.Hour})
	sql := e.Statements()
	topics, ids, numbers, over := []int32{1, 1}, []string{"a", "b"}, []int64{1, 2}, []int16{0, 0}
	for name, read := range map[string]int{
		"set":    rowsRead(t, e, "hw_topics", sql.Set, topics, ids, numbers, numbers, numbers, over, nil, nil),
		"insert": rowsRead(t, e, "hw_topics", sql.Insert, topics, []string{"c", "d"}, numbers, numbers, numbers, over, nil, nil),
		"get":    rowsRead(t, e, "hw_topics", sql.Get, topics, ids),
		"lock":   rowsRead(t, e, "hw_topics", sql.Lock, topics, ids),
		"move":   rowsRead(t, e, "hw_topics", sql.Move, topics, ids, numbers, numbers, numbers),
		"delete": rowsRead(t, e, "hw_topics", sql.Delete, topics, ids, numbers, numbers, numbers),
		"remove": rowsRead(t, e, "hw_topics", sql.Remove, topics, ids, numbers, numbers, numbers),
		"replay": rowsRead(t, e, "hw_topics", sql.Replay, topics, ids),
		"extend": rowsRead(t, e, "hw_topics", sql.Extend, topics, ids, numbers, 1),
	} {
		require.Equal(t, 1, read, name)
	}
}
