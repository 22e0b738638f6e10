package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// A statement sees a task as it was when the statement began. Another node may lease the task before the
// statement locks it, or it is moved. PostgreSQL 15.13 then compares a task again, but no ctid.
func TestATaskThatIsChangedWhileAStatementLooksForItIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*testing.T, engine.Engine){
		"leased": func(t *testing.T, e engine.Engine) {
			batch, err := e.Expire(t.Context(), engine.Ask{Topic: "orders", Node: "b", Max: 10, Lease: time.Hour})
			require.NoError(t, err)
			require.Len(t, batch.Leased, 1)
		},
		"moved": func(t *testing.T, e engine.Engine) {
			_, err := e.Move(t.Context(), []engine.Move{{Key: key("1"), After: time.Hour}})
			require.NoError(t, err)
		},
		"done": func(t *testing.T, e engine.Engine) {
			batch, err := e.Expire(t.Context(), engine.Ask{Topic: "orders", Node: "b", Max: 10, Lease: time.Hour})
			require.NoError(t, err)
			_, err = e.Expire(t.Context(), engine.Ask{Topic: "orders", Settle: []engine.Outcome{{Token: batch.Leased[0].Token, As: engine.Done}}})
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) { changeDuringALease(t, change, false) })
		t.Run(name+", own slots", func(t *testing.T) { changeDuringALease(t, change, true) })
	}
}

func changeDuringALease(t *testing.T, change func(*testing.T, engine.Engine), own bool) {
	t.Helper()
	e := openTopic(t, engine.Topic{Name: "orders", Retries: -1, Retain: time.Hour})
	set(t, e, engine.Task{ID: "1", Due: time.Unix(1, 0)})
	pool := newPool(t)
	holder, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer holder.Rollback(t.Context())
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock(42)")
	require.NoError(t, err)

	lease, args := e.Statements().Lease, []any{1, 0, 10, 3600000, "a", 10, nil, 0, 1, 1000}
	if own {
		lease, args = e.Statements().LeaseOwn, append(args, []int16{0, 1, 2, 3, 4, 5, 6, 7}, 7, 100)
	}
	slow := strings.Replace(lease, "::bigint AS now)", "::bigint AS now FROM (SELECT pg_advisory_xact_lock(42)) AS lock OFFSET 0)", 1)
	require.NotEqual(t, lease, slow)
	leased := make(chan string, 1)
	go func() {
		tx, err := pool.Begin(t.Context())
		if err == nil {
			_, err = tx.Exec(t.Context(), e.Statements().Planner)
		}
		if err != nil {
			leased <- err.Error()
			return
		}
		rows, err := tx.Query(t.Context(), slow, args...)
		n := 0
		for err == nil && rows.Next() {
			n++
		}
		if err == nil {
			err = rows.Err()
		}
		if err == nil {
			err = tx.Commit(t.Context())
		}
		if err != nil {
			leased <- err.Error()
			return
		}
		leased <- strings.Repeat("row ", n)
	}()
	require.Eventually(t, func() (waits bool) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)").Scan(&waits))
		return waits
	}, time.Minute, 10*time.Millisecond)
	change(t, e)
	before := get(t, e, "1")
	require.NoError(t, holder.Commit(t.Context()))
	require.Empty(t, <-leased)
	require.Equal(t, before, get(t, e, "1"))
	all, err := e.Executions(t.Context(), key("1"), 10)
	require.NoError(t, err)
	for _, one := range all {
		require.NotContains(t, one.Error, "the lease of", "%+v", one)
	}
}
