package postgres_test

import (
	"testing"
	"time"

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
	tx, err := newPool(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE "+e.Schema()+".hw_tasks IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	unlocked := make(chan error, 1)
	time.AfterFunc(time.Second, func() { unlocked <- tx.Rollback(t.Context()) })
	require.Zero(t, pending())
	require.NoError(t, <-unlocked)
	_, err = e.Set(t.Context(), []engine.Task{{Topic: "t", ID: "1"}})
	require.NoError(t, err)
	time.Sleep(1500 * time.Millisecond)
	require.Zero(t, pending(), "for ten seconds")
	require.Eventually(t, func() bool { return pending() == 1 }, time.Minute, 100*time.Millisecond)
}
