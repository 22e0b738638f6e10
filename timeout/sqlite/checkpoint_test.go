package sqlite_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

// A backup reads for long. Whoever sets a task after that must not wait until all is moved that was written meanwhile.
func TestALogThatGrewWhileSomebodyReadIsNotMovedByTheWriter(t *testing.T) {
	sqlite.ShortLogFor(t)
	path := filepath.Join(t.TempDir(), "tasks.db")
	e, err := sqlite.Open(path, sqlite.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
	require.NoError(t, err)
	moves := func() bool {
		moves, err := e.WriterMoves(t.Context())
		require.NoError(t, err)
		return moves
	}
	length := func() int64 {
		info, err := os.Stat(path + "-wal")
		require.NoError(t, err)
		return info.Size()
	}
	payload := bytes.Repeat([]byte("x"), 100_000)
	n := 0
	grow := func(by int64) {
		for end := length() + by; length() < end; n++ {
			_, err := e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: fmt.Sprint(n), After: time.Hour, Payload: payload}})
			require.NoError(t, err)
		}
	}
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	for round := range 2 {
		reader, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		var tasks int
		require.NoError(t, reader.QueryRow("SELECT count(*) FROM hw_tasks").Scan(&tasks))
		require.True(t, moves())
		grow(3 * sqlite.LogLimit())
		require.False(t, moves(), "round %d", round)
		require.NoError(t, reader.Rollback())
		require.Eventually(t, moves, time.Minute, 10*time.Millisecond, "round %d", round)
		require.LessOrEqual(t, length(), sqlite.LogLimit())
	}
	got, err := e.Get(t.Context(), []engine.Key{{Topic: "orders", ID: "0"}, {Topic: "orders", ID: fmt.Sprint(n - 1)}})
	require.NoError(t, err)
	for _, task := range got {
		require.Equal(t, payload, task.Payload)
	}
}

func TestAnEngineClosesWhileSomebodyKeepsItsLogLong(t *testing.T) {
	sqlite.ShortLogFor(t)
	path := filepath.Join(t.TempDir(), "tasks.db")
	e, err := sqlite.Open(path, sqlite.Config{})
	require.NoError(t, err)
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
	require.NoError(t, err)
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	reader, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, reader.Rollback()) }()
	var tasks int
	require.NoError(t, reader.QueryRow("SELECT count(*) FROM hw_tasks").Scan(&tasks))
	var batch []engine.Task
	for i := range sqlite.LogLimit()/1_000_000 + 2 {
		batch = append(batch, engine.Task{Topic: "orders", ID: fmt.Sprint(i), After: time.Hour, Payload: make([]byte, 1_000_000)})
	}
	_, err = e.Set(t.Context(), batch)
	require.NoError(t, err)
	moves, err := e.WriterMoves(t.Context())
	require.NoError(t, err)
	require.False(t, moves)
	require.NoError(t, e.Close())
	again, err := sqlite.Open(path, sqlite.Config{})
	require.NoError(t, err)
	got, err := again.Get(t.Context(), []engine.Key{batch[0].Key()})
	require.NoError(t, err)
	require.Equal(t, batch[0].Payload, got[0].Payload)
	require.NoError(t, again.Close())
}
