package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// locked locks the table of tasks until release is called.
func locked(t *testing.T, e *postgres.Engine) (release func()) {
	tx, err := newPool(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE "+e.Schema()+".hw_tasks IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // if the test fails
	return func() { require.NoError(t, tx.Rollback(t.Context())) }
}

// awaitWaiting waits until a statement waits for the table of tasks.
func awaitWaiting(t *testing.T, e *postgres.Engine) {
	pool := newPool(t)
	require.Eventually(t, func() (waits bool) {
		err := pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = $1::regclass AND NOT granted)", e.Schema()+".hw_tasks").Scan(&waits)
		return assert.NoError(t, err) && waits
	}, time.Minute, 10*time.Millisecond)
}

// A count that takes long is not made again at once: it takes at most a tenth of the time.
func TestASlowCountIsTheAnswerForAWhile(t *testing.T) {
	t.Parallel()
	e := openTopic(t, engine.Topic{Name: "t"})
	pending := func() int64 {
		counts, err := e.Count(t.Context(), "t")
		require.NoError(t, err)
		return counts.Pending
	}
	release := locked(t, e)
	first := make(chan engine.Counts, 1)
	go func() {
		counts, err := e.Count(t.Context(), "t")
		assert.NoError(t, err)
		first <- counts
	}()
	awaitWaiting(t, e)
	time.Sleep(time.Second)
	release()
	require.Zero(t, (<-first).Pending)
	_, err := e.Set(t.Context(), []engine.Task{{Topic: "t", ID: "1"}})
	require.NoError(t, err)
	time.Sleep(1500 * time.Millisecond)
	require.Zero(t, pending(), "for ten seconds")
	require.Eventually(t, func() bool { return pending() == 1 }, time.Minute, 100*time.Millisecond)
}

func TestACountThatEndsAfterTheDropIsNotKept(t *testing.T) {
	t.Parallel()
	schema := newSchema()
	// A transaction counts what it saw at its beginning. So a count that waits does not see the drop.
	e, err := postgres.Open(t.Context(), sharedURL(t, "default_transaction_isolation=repeatable%20read"), postgres.Config{Schema: schema})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "t"}, true)
	require.NoError(t, err)
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "other"}, true)
	require.NoError(t, err)
	_, err = e.Count(t.Context(), "other") // prepares the statement
	require.NoError(t, err)
	release := locked(t, e)
	counted := make(chan error, 1)
	go func() {
		_, err := e.Count(t.Context(), "t")
		counted <- err
	}()
	awaitWaiting(t, e)
	require.NoError(t, e.DropTopic(t.Context(), "t"))
	release()
	require.NoError(t, <-counted)
	_, err = e.Count(t.Context(), "t")
	require.ErrorIs(t, err, engine.ErrNotFound)
}
