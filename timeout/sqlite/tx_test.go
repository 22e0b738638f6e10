package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

// appDB returns the database of a program with its own tables, and a rig on its file.
func appDB(t *testing.T) (*rig, *sql.DB) {
	r := newRig(t, engine.Topic{})
	r.path = filepath.Join(t.TempDir(), "app.db")
	r.Engine = openEngine(t, r.path)
	r.topic(engine.Topic{})
	db, err := sql.Open("sqlite", "file:"+r.path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return r, db
}

func TestTasksOfATransactionOfTheCallers(t *testing.T) {
	r, db := appDB(t)
	_, err := db.ExecContext(t.Context(), "CREATE TABLE orders (id TEXT PRIMARY KEY)")
	require.NoError(t, err)

	for _, commit := range []bool{false, true} {
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), "INSERT INTO orders VALUES ('4711')")
		require.NoError(t, err)
		answers, err := sqlite.SetTx(t.Context(), tx, []engine.Task{
			{Topic: "t", ID: "4711", After: time.Hour, Payload: []byte("p")}, {Topic: "t", ID: "4712"}, {Topic: "u", ID: "4712"},
		})
		require.NoError(t, err)
		require.NotZero(t, answers[0].Version)
		require.ErrorIs(t, answers[2].Err, engine.ErrNotFound)
		moved, err := sqlite.MoveTx(t.Context(), tx, []engine.Move{{Key: key("4711"), After: time.Minute}})
		require.NoError(t, err)
		require.Equal(t, engine.Pending, moved[0].Was)
		gone, err := sqlite.RemoveTx(t.Context(), tx, []engine.Removal{{Key: key("4712")}, {Key: key("4713")}})
		require.NoError(t, err)
		require.Equal(t, []engine.Answer{{Was: engine.Pending}, {}}, gone)
		require.Equal(t, engine.None, r.get("4711").State, "nobody sees it before the commit")
		if !commit {
			require.NoError(t, tx.Rollback())
			require.Equal(t, engine.None, r.get("4711").State)
			continue
		}
		require.NoError(t, tx.Commit())
		task := r.get("4711")
		require.Equal(t, engine.Pending, task.State)
		require.Equal(t, moved[0].Version, task.Version)
		require.Equal(t, "p", string(task.Payload))
	}
}

func TestOthersHearOfALeaseThatATransactionOfTheCallersEnds(t *testing.T) {
	r, db := appDB(t)
	ctx, cancel := context.WithCancel(t.Context())
	listening, heard, done := make(chan bool, 100), make(chan engine.Key, 100), make(chan error, 1)
	go func() {
		done <- r.Wake(ctx, func(topic string) {
			if topic == "" {
				listening <- true
			}
		}, func(key engine.Key) { heard <- key })
	}()
	defer func() { cancel(); require.NoError(t, <-done) }()
	<-listening
	for _, commit := range []bool{false, true} {
		if !commit {
			_, err := r.Set(ctx, []engine.Task{{Topic: "t", ID: "a b"}})
			require.NoError(t, err)
			batch, err := r.Lease(ctx, engine.Ask{Topic: "t", Max: 1, Lease: time.Hour})
			require.NoError(t, err)
			require.Len(t, batch.Leased, 1)
		}
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		answers, err := sqlite.RemoveTx(ctx, tx, []engine.Removal{{Key: key("a b")}})
		require.NoError(t, err)
		require.Equal(t, engine.Running, answers[0].Was)
		if commit {
			require.NoError(t, tx.Commit())
		} else {
			require.NoError(t, tx.Rollback())
		}
	}
	select {
	case ended := <-heard:
		require.Equal(t, key("a b"), ended)
	case <-time.After(time.Minute):
		require.Fail(t, "nobody hears")
	}
	require.Empty(t, heard)
}

func TestATransactionIsNotChangedByWhatCantBeKept(t *testing.T) {
	r := newRig(t, engine.Topic{})
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "empty.db"))
	require.NoError(t, err)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	_, err = sqlite.SetTx(t.Context(), tx, []engine.Task{{Topic: "t", ID: "x"}, {Topic: "t", ID: "\n"}})
	require.ErrorIs(t, err, engine.ErrArgument)
	_, err = sqlite.MoveTx(t.Context(), tx, []engine.Move{{Key: key("x"), After: -1}})
	require.ErrorIs(t, err, engine.ErrArgument)
	_, err = sqlite.RemoveTx(t.Context(), tx, []engine.Removal{{Key: engine.Key{Topic: "", ID: "x"}}})
	require.ErrorIs(t, err, engine.ErrArgument)
	_, err = sqlite.SetTx(t.Context(), tx, []engine.Task{{Topic: "t", ID: "x"}})
	require.ErrorContains(t, err, "hw_meta", "there are no tables")
	require.Equal(t, engine.None, r.get("x").State)
}
