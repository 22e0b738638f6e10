package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// A statement sees a task as it was when the statement began. Another node may lease the task before the
// statement locks it, or it is moved. PostgreSQL 15.13 then compares a task again, but no ctid.
func TestATaskThatIsChangedWhileAStatementLooksForItIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *postgres.Engine){
		"leased": func(t *testing.T, e *postgres.Engine) {
			batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "b", Max: 10, Lease: time.Hour})
			require.NoError(t, err)
			require.Len(t, batch.Leased, 1)
		},
		"moved": func(t *testing.T, e *postgres.Engine) {
			_, err := e.Move(t.Context(), []engine.Move{{Key: key("1"), After: time.Hour}})
			require.NoError(t, err)
		},
		"moved to another time that is past": func(t *testing.T, e *postgres.Engine) {
			_, err := e.Move(t.Context(), []engine.Move{{Key: key("1"), Due: time.Unix(2, 0)}})
			require.NoError(t, err)
		},
		"set": func(t *testing.T, e *postgres.Engine) { set(t, e, engine.Task{ID: "1", Due: time.Unix(2, 0)}) },
		"done": func(t *testing.T, e *postgres.Engine) {
			batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "b", Max: 10, Lease: time.Hour})
			require.NoError(t, err)
			_, err = e.Lease(t.Context(), engine.Ask{Topic: "orders", Settle: []engine.Outcome{{Token: batch.Leased[0].Token, As: engine.Done}}})
			require.NoError(t, err)
		},
	} {
		waiting := func(t *testing.T) *postgres.Engine {
			e := openTopic(t, engine.Topic{Name: "orders", Retries: -1, Retain: time.Hour})
			set(t, e, engine.Task{ID: "1", Due: time.Unix(1, 0)})
			return e
		}
		t.Run(name, func(t *testing.T) { changeDuringALease(t, waiting(t), change, false) })
		t.Run(name+", own slots", func(t *testing.T) { changeDuringALease(t, waiting(t), change, true) })
	}
}

// The lease of a task has ended. Another node leases it meanwhile, and that lease ends, too.
func TestALeaseThatEndsWhileAStatementLooksForItIsLoggedOnce(t *testing.T) {
	shortly := func(t *testing.T, e *postgres.Engine) {
		batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "b", Max: 10, Lease: time.Millisecond})
		require.NoError(t, err)
		require.Len(t, batch.Leased, 1)
		require.Eventually(t, func() bool { // the server's clock is past it
			now, err := e.Now(t.Context())
			return err == nil && now.After(batch.Now.Add(5*time.Millisecond))
		}, time.Minute, time.Millisecond)
	}
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("own=%v", own), func(t *testing.T) {
			e := openTopic(t, engine.Topic{Name: "orders", Retries: 10})
			set(t, e, engine.Task{ID: "1", Due: time.Unix(1, 0)})
			shortly(t, e)
			changeDuringALease(t, e, shortly, own)
		})
	}
}

// changeDuringALease changes task 1 while a statement looks for it, and checks that this does nothing.
func changeDuringALease(t *testing.T, e *postgres.Engine, change func(*testing.T, *postgres.Engine), own bool) {
	t.Helper()
	pool := newPool(t)
	holder, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer holder.Rollback(t.Context())
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock(42)")
	require.NoError(t, err)

	lease, args := e.Statements().Lease, []any{1, 0, 10, 3600000, "a", 10, 1000, postgres.UnknownFront}
	if own {
		lease, args = e.Statements().LeaseOwn, append(args, []int16{0, 1, 2, 3, 4, 5, 6, 7}, 7, 100)
	}
	slow := strings.Replace(lease, "::bigint AS now)", "::bigint AS now FROM (SELECT pg_advisory_xact_lock(42)) AS lock OFFSET 0)", 1)
	require.NotEqual(t, lease, slow)
	leased := make(chan string, 1)
	go func() {
		n := 0
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), e.Statements().Planner); err != nil {
				return err
			}
			rows, err := tx.Query(t.Context(), slow, args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				n++
			}
			return rows.Err()
		})
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
	logged, err := e.Executions(t.Context(), key("1"), 10)
	require.NoError(t, err)
	require.NoError(t, holder.Commit(t.Context()))
	require.Empty(t, <-leased)
	require.Equal(t, before, get(t, e, "1"))
	all, err := e.Executions(t.Context(), key("1"), 10)
	require.NoError(t, err)
	require.Equal(t, logged, all)
}
