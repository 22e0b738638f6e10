package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

func TestATaskIsSetWhenTheTransactionCommits(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	pool := newPool(t)
	for _, commit := range []bool{false, true} {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		answers, err := e.SetTx(t.Context(), tx, []engine.Task{{Topic: "orders", ID: "1", After: time.Hour}, {Topic: "none", ID: "1"}})
		require.NoError(t, err)
		require.Equal(t, engine.None, answers[0].Was)
		require.ErrorIs(t, answers[1].Err, engine.ErrNotFound)
		require.Equal(t, engine.None, get(t, e, "1").State, "nobody sees it")
		var seqscan string
		require.NoError(t, tx.QueryRow(t.Context(), "SHOW enable_seqscan").Scan(&seqscan))
		require.Equal(t, "on", seqscan, "the transaction's settings are its owner's")
		if commit {
			require.NoError(t, tx.Commit(t.Context()))
			require.Equal(t, answers[0].Version, get(t, e, "1").Version)
		} else {
			require.NoError(t, tx.Rollback(t.Context()))
			require.Equal(t, engine.None, get(t, e, "1").State)
		}
	}
}

func TestATaskIsMovedAndRemovedWhenTheTransactionCommits(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	pool := newPool(t)
	before := set(t, e, engine.Task{ID: "1", After: time.Hour})[0]
	for _, commit := range []bool{false, true} {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		answers, err := e.MoveTx(t.Context(), tx, []engine.Move{{Key: key("1"), After: 2 * time.Hour}, {Key: key("2")}})
		require.NoError(t, err)
		require.Equal(t, engine.Pending, answers[0].Was)
		require.Equal(t, engine.None, answers[1].Was)
		require.Equal(t, before.Version, get(t, e, "1").Version)
		if commit {
			require.NoError(t, tx.Commit(t.Context()))
			require.Equal(t, answers[0].Version, get(t, e, "1").Version)
		} else {
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
	for _, commit := range []bool{false, true} {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		answers, err := e.RemoveTx(t.Context(), tx, []engine.Removal{{Key: key("1")}})
		require.NoError(t, err)
		require.Equal(t, engine.Pending, answers[0].Was)
		if commit {
			require.NoError(t, tx.Commit(t.Context()))
			require.Equal(t, engine.None, get(t, e, "1").State)
		} else {
			require.NoError(t, tx.Rollback(t.Context()))
			require.Equal(t, engine.Pending, get(t, e, "1").State)
		}
	}
}

func TestATransactionIsNotToldWhatNoEngineCouldKeep(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	tx, err := newPool(t).Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	_, err = e.SetTx(t.Context(), tx, []engine.Task{{Topic: "orders"}})
	require.ErrorIs(t, err, engine.ErrArgument)
	_, err = e.MoveTx(t.Context(), tx, []engine.Move{{Key: key("1"), After: -1}})
	require.ErrorIs(t, err, engine.ErrArgument)
	_, err = e.RemoveTx(t.Context(), tx, []engine.Removal{{Key: engine.Key{Topic: "-", ID: "1"}}})
	require.ErrorIs(t, err, engine.ErrArgument)
	_, err = e.SetTx(t.Context(), tx, []engine.Task{{Topic: "orders", ID: "1"}})
	require.NoError(t, err, "and can go on")
}

// A set of a task waits while somebody removes the task. Its version is above all versions answered
// before it began. It may be below versions answered while it waited, but is none of them.
func TestATaskThatIsSetWhileItIsRemovedHasAHigherVersion(t *testing.T) {
	for _, absent := range []bool{false, true} {
		e := openTopic(t, engine.Topic{Name: "orders"})
		pool := newPool(t)
		set(t, e, engine.Task{ID: "1", After: time.Hour})
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(context.Background())
		before, err := e.MoveTx(t.Context(), tx, []engine.Move{{Key: key("1")}})
		require.NoError(t, err)

		answered := make(chan []engine.Answer, 1)
		go func() {
			answers, err := e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: "1", IfAbsent: absent}})
			assert.NoError(t, err)
			answered <- answers
		}()
		require.Eventually(t, func() bool {
			var waiting int
			err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))", int32(tx.Conn().PgConn().PID())).Scan(&waiting)
			return assert.NoError(t, err) && waiting == 1
		}, time.Minute, 5*time.Millisecond, "it waits")
		moved, err := e.MoveTx(t.Context(), tx, []engine.Move{{Key: key("1")}})
		require.NoError(t, err)
		_, err = e.RemoveTx(t.Context(), tx, []engine.Removal{{Key: key("1")}})
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context()))
		answers := <-answered
		require.Equal(t, engine.None, answers[0].Was)
		require.Greater(t, answers[0].Version, before[0].Version)
		require.NotEqual(t, answers[0].Version, moved[0].Version)
		require.Equal(t, answers[0].Version, get(t, e, "1").Version)
	}
}

func TestOthersHearOfAnEndedLeaseWhenTheTransactionCommits(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	listener := open(t, schemaOf(e))
	pool := newPool(t)
	ctx, cancel := context.WithCancel(t.Context())
	listening, heard, done := make(chan bool, 100), make(chan engine.Key, 100), make(chan error, 1)
	go func() {
		done <- listener.Wake(ctx, func(topic string) {
			if topic == "" {
				listening <- true
			}
		}, func(key engine.Key) { heard <- key })
	}()
	defer func() { cancel(); <-done }()
	<-listening
	for n, end := range []func(tx pgx.Tx) ([]engine.Answer, error){
		func(tx pgx.Tx) ([]engine.Answer, error) {
			return e.SetTx(ctx, tx, []engine.Task{{Topic: "orders", ID: "a b", After: time.Hour}, {Topic: "orders", ID: "new", After: time.Hour}})
		},
		func(tx pgx.Tx) ([]engine.Answer, error) {
			return e.RemoveTx(ctx, tx, []engine.Removal{{Key: key("a b")}, {Key: key("new")}})
		},
	} {
		for _, commit := range []bool{false, true} {
			if !commit {
				set(t, e, engine.Task{ID: "a b"})
				leaseOne(t, e, time.Hour)
			}
			tx, err := pool.Begin(ctx)
			require.NoError(t, err)
			answers, err := end(tx)
			require.NoError(t, err)
			require.Equal(t, engine.Running, answers[0].Was)
			if commit {
				require.NoError(t, tx.Commit(ctx))
			} else {
				require.NoError(t, tx.Rollback(ctx))
			}
		}
		select {
		case ended := <-heard:
			require.Equal(t, key("a b"), ended)
		case <-time.After(time.Minute):
			require.Fail(t, "nobody hears", "%d", n)
		}
		require.Empty(t, heard, "messages come in the order of the commits: that of the rollback would be there")
	}
}
