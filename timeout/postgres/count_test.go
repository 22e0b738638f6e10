package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// A count that takes long is not made again at once: it takes at most a tenth of the time.
func TestASlowCountIsTheAnswerForAWhile(t *testing.T) {
	t.Parallel()
	e := openTopic(t, engine.Topic{Name: "t"})
	pending := func() int64 {
		counts, err := e.Count(t.Context(), "t")
		require.NoError(t, err)
		return counts.Pending
	}
	pool := newPool(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE "+e.Schema()+".hw_tasks IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	first := make(chan engine.Counts, 1)
	go func() {
		counts, err := e.Count(t.Context(), "t")
		assert.NoError(t, err)
		first <- counts
	}()
	require.Eventually(t, func() (waits bool) {
		err := pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = $1::regclass AND NOT granted)", e.Schema()+".hw_tasks").Scan(&waits)
		return assert.NoError(t, err) && waits
	}, time.Minute, 10*time.Millisecond)
	time.Sleep(time.Second)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Zero(t, (<-first).Pending)
	_, err = e.Set(t.Context(), []engine.Task{{Topic: "t", ID: "1"}})
	require.NoError(t, err)
	time.Sleep(1500 * time.Millisecond)
	require.Zero(t, pending(), "for ten seconds")
	require.Eventually(t, func() bool { return pending() == 1 }, time.Minute, 100*time.Millisecond)
}
