package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// attempts has so many new tasks run, each once, and end as the outcome says.
func attempts(t testing.TB, e *postgres.Engine, prefix string, count int, outcome engine.Outcome) []engine.Outcome {
	t.Helper()
	tasks := make([]engine.Task, count)
	for i := range tasks {
		tasks[i] = engine.Task{ID: fmt.Sprint(prefix, i), Due: time.Unix(1, 0)}
	}
	set(t, e, tasks...)
	return runAll(t, e, count, outcome)
}

// runAll leases what is due, so many tasks, and settles them.
func runAll(t testing.TB, e *postgres.Engine, count int, outcome engine.Outcome) (settled []engine.Outcome) {
	t.Helper()
	batch := leaseBatch(t, e, count, time.Minute)
	require.Len(t, batch.Leased, count)
	for _, leased := range batch.Leased {
		outcome.Token = leased.Token
		settled = append(settled, outcome)
	}
	require.NotContains(t, leaseBatch(t, e, 0, 0, settled...).Settled, false)
	return settled
}

// logged returns the number of rows in the log, and how many of them have no task any more.
func logged(t testing.TB, pool *pgxpool.Pool, e *postgres.Engine) (all, orphans int) {
	t.Helper()
	query := fmt.Sprintf(`SELECT count(*), count(*) FILTER (WHERE NOT EXISTS (
		SELECT FROM %[1]s.hw_tasks t WHERE t.topic = x.topic AND t.id = x.id)) FROM %[1]s.hw_executions x`, e.Schema())
	require.NoError(t, pool.QueryRow(t.Context(), query).Scan(&all, &orphans))
	return all, orphans
}

// Between two calls of Maintain the log gets as many new rows as a call can delete. There are older rows,
// too: their tasks are deleted only after the first calls.
func TestTheLogIsDeletedAsLongAsLoadLasts(t *testing.T) {
	const each, before, after = 500, 4, 8
	e := openTopic(t, engine.Topic{Name: "orders", Retain: time.Hour})
	pool := newPool(t)
	for round := range before + after {
		if round == before {
			_, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders", Retain: time.Millisecond}, false)
			require.NoError(t, err)
		}
		attempts(t, e, fmt.Sprint(round, "-"), each, engine.Outcome{As: engine.Done})
		time.Sleep(2 * time.Millisecond)
		_, err := e.Maintain(t.Context())
		require.NoError(t, err)
	}
	all, orphans := logged(t, pool, e)
	require.Zero(t, orphans, "the log of a task goes with it")
	require.LessOrEqual(t, all, (before+1)*each)
}

func TestTheLogOfATaskGoesWithIt(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders", RetainDead: time.Millisecond})
	pool := newPool(t)
	const each = 10
	failed := engine.Outcome{As: engine.Pending, Due: time.Unix(1, 0), Error: "no"}

	attempts(t, e, "done", each, failed)
	all, _ := logged(t, pool, e)
	require.Equal(t, each, all)
	runAll(t, e, each, engine.Outcome{As: engine.Done})
	all, _ = logged(t, pool, e)
	require.Zero(t, all, "what is done, and not retained")

	var removals []engine.Removal
	for _, outcome := range attempts(t, e, "removed", each, failed) {
		removals = append(removals, engine.Removal{Key: outcome.Token.Key})
	}
	answers, err := e.Remove(t.Context(), removals)
	require.NoError(t, err)
	require.Equal(t, engine.Pending, answers[0].Was)
	all, _ = logged(t, pool, e)
	require.Zero(t, all, "what is removed, and not retained")

	attempts(t, e, "dead", each, engine.Outcome{As: engine.Dead, Error: "no"})
	require.Eventually(t, func() bool {
		_, err := e.Maintain(t.Context())
		require.NoError(t, err)
		all, orphans := logged(t, pool, e)
		require.Zero(t, orphans)
		return all == 0
	}, time.Minute, time.Millisecond, "what is dead, and was kept for its time")
}
