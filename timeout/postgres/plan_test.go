package postgres_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
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
		{"list", sql.List, byTime, byKey, []any{"orders", 1, 0, "", 10, 1}},
		{"shorten", sql.Shorten, byTime, byKey, []any{topics, 10}},
		{"count", sql.Count, byTime, byKey, []any{"orders"}},
		{"upcoming", sql.Upcoming, byTime, byKey, []any{"orders", 0, "", 10, nil, 7, 10}},
		{"executions", sql.Executions, logByKey, logByTime, []any{"orders", "a", 10}},
		{"sweep", sql.Sweep, byTime, byKey, []any{topics, numbers, numbers, 10}},
		{"sweeplog", sql.SweepLog, logByTime, logByKey, []any{topics, numbers, 10}},
		{"sweep's log", sql.Sweep, logByKey, logByTime, []any{topics, numbers, numbers, 10}},
		{"delete's log", sql.Delete, logByKey, logByTime, []any{topics, ids, numbers, shorts, numbers}},
		{"settledone's log", sql.SettleDone, logByKey, logByTime, []any{1, ids, numbers}},
		{"sweepdead", sql.SweepDead, byTime, byKey, []any{topics, numbers, 10}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tx, err := newPool(t).Begin(t.Context())
			require.NoError(t, err)
			defer tx.Rollback(t.Context())
			_, err = tx.Exec(t.Context(), sql.Planner)
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), "SET LOCAL plan_cache_mode = force_generic_plan")
			require.NoError(t, err)
			rows, err := tx.Query(t.Context(), "EXPLAIN "+test.sql, test.args...)
			require.NoError(t, err)
			plan := new(strings.Builder)
			for rows.Next() {
				var line string
				require.NoError(t, rows.Scan(&line))
				plan.WriteString(line + "\n")
			}
			require.NoError(t, rows.Err())
			require.Contains(t, plan.String(), test.index)
			require.NotContains(t, plan.String(), test.other)
			require.NotContains(t, plan.String(), "Seq Scan on hw_tasks")
			require.NotContains(t, plan.String(), "Seq Scan on hw_executions")
			require.NotRegexp(t, `Filter: \(+(filed|at) <=`, plan.String(), "the index ends where the time does")
			require.NotRegexp(t, `TID Cond: \(ctid = \w+_\d+\.place\)\n +[^ F]`, plan.String(), "some servers do not compare a ctid again with what they lock")
			if test.name != "upcoming" { // it merges two states
				require.NotRegexp(t, `Sort Key: [tk](_\d+)?\.filed`, plan.String(), "the index has the order")
			}
		})
	}
}
