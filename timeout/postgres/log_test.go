package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// attempts has so many new tasks run, each once, and end as the outcome says.
func attempts(t testing.TB, e *postgres.Engine, prefix string, count int, outcome timeout.Outcome) []timeout.Outcome {
	t.Helper()
	tasks := make([]timeout.Task, count)
	for i := range tasks {
		tasks[i] = timeout.Task{ID: fmt.Sprint(prefix, i), Due: time.Unix(1, 0)}
	}
	set(t, e, tasks...)
	return runAll(t, e, count, outcome)
}

// runAll leases what is due, so many tasks, and settles them.
func runAll(t testing.TB, e *postgres.Engine, count int, outcome timeout.Outcome) (settled []timeout.Outcome) {
	t.Helper()
	batch := expire(t, e, count, time.Minute)
	require.Len(t, batch.Leased, count)
	for _, leased := range batch.Leased {
		outcome.Token = leased.Token
		settled = append(settled, outcome)
	}
	require.NotContains(t, expire(t, e, 0, 0, settled...).Settled, false)
	return settled
}

// logged returns how many rows the log has, and how many of those are of tasks that are gone.
func logged(t testing.TB, pool *pgxpool.Pool, e *postgres.Engine) (all, orphans int) {
	t.Helper()
	query := fmt.Sprintf(`SELECT count(*), count(*) FILTER (WHERE NOT EXISTS (
		SELECT FROM %[1]s.hw_tasks t WHERE t.topic = x.topic AND t.id = x.id)) FROM %[1]s.hw_executions x`, e.Schema())
	require.NoError(t, pool.QueryRow(t.Context(), query).Scan(&all, &orphans))
	return all, orphans
}

// Each call of Upkeep finds as much that is new in the log as it can delete, and older rows whose
// tasks are forgotten later than the first calls.
func TestTheLogIsDeletedAsLongAsLoadLasts(t *testing.T) {
	const each, before, after = 500, 4, 8
	engine := openTopic(t, timeout.Topic{Name: "orders", Retain: time.Hour})
	pool := newPool(t)
	for round := range before + after {
		if round == before {
			_, err := engine.SetTopic(t.Context(), timeout.Topic{Name: "orders", Retain: time.Millisecond}, false)
			require.NoError(t, err)
		}
		attempts(t, engine, fmt.Sprint(round, "-"), each, timeout.Outcome{As: timeout.Done})
		time.Sleep(2 * time.Millisecond)
		_, err := engine.Upkeep(t.Context(), 0)
		require.NoError(t, err)
	}
	all, orphans := logged(t, pool, engine)
	require.Zero(t, orphans, "the log of a task goes with it")
	require.LessOrEqual(t, all, (before+1)*each)
}

func TestTheLogOfATaskGoesWithIt(t *testing.T) {
	engine := openTopic(t, timeout.Topic{Name: "orders", RetainDead: time.Millisecond})
	pool := newPool(t)
	const each = 10
	failed := timeout.Outcome{As: timeout.Pending, Due: time.Unix(1, 0), Error: "no"}

	attempts(t, engine, "done", each, failed)
	all, _ := logged(t, pool, engine)
	require.Equal(t, each, all)
	runAll(t, engine, each, timeout.Outcome{As: timeout.Done})
	all, _ = logged(t, pool, engine)
	require.Zero(t, all, "what is done, and not retained")

	var removals []timeout.Removal
	for _, outcome := range attempts(t, engine, "removed", each, failed) {
		removals = append(removals, timeout.Removal{Key: outcome.Token.Key})
	}
	answers, err := engine.Remove(t.Context(), removals)
	require.NoError(t, err)
	require.Equal(t, timeout.Pending, answers[0].Was)
	all, _ = logged(t, pool, engine)
	require.Zero(t, all, "what is removed, and not retained")

	attempts(t, engine, "dead", each, timeout.Outcome{As: timeout.Dead, Error: "no"})
	require.Eventually(t, func() bool {
		_, err := engine.Upkeep(t.Context(), 0)
		require.NoError(t, err)
		all, orphans := logged(t, pool, engine)
		require.Zero(t, orphans)
		return all == 0
	}, time.Minute, time.Millisecond, "what is dead, and was kept for its time")
}
