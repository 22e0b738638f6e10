package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

func TestManyOpenANewFileAtTheSameTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			e, err := sqlite.Open(path, sqlite.Config{})
			if err != nil {
				t.Error(err)
				return
			}
			_, err = e.SetTopic(context.Background(), engine.Topic{Name: "t"}, true)
			if err != nil || e.Close() != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	topics, err := openEngine(t, path).Topics(t.Context())
	require.NoError(t, err)
	require.Len(t, topics, 1)
}

func TestTasksAreThereWhenTheFileIsOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	for i := range 2 {
		e, err := sqlite.Open(path, sqlite.Config{Sync: sqlite.SyncFull})
		require.NoError(t, err)
		kept, err := e.SetTopic(t.Context(), engine.Topic{Name: "t", Slots: 4 * (1 - i), Retain: time.Hour}, i == 0)
		require.NoError(t, err)
		require.Equal(t, 4, kept.Slots)
		answers, err := e.Set(t.Context(), []engine.Task{{Topic: "t", ID: "x"}})
		require.NoError(t, err)
		require.Equal(t, []engine.State{engine.None, engine.Pending}[i], answers[0].Was)
		require.NoError(t, e.Close())
		require.NoError(t, e.Close())
	}
}

func TestTablesOfAnOlderVersionAreBroughtUpToDate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	e, err := sqlite.Open(path, sqlite.Config{})
	require.NoError(t, err)
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "t"}, true)
	require.NoError(t, err)
	callback := &engine.Callback{Kind: "http", Target: "http://127.0.0.1/"}
	_, err = e.Set(t.Context(), []engine.Task{{Topic: "t", ID: "old", Callback: callback}, {Topic: "t", ID: "new"}})
	require.NoError(t, err)
	require.NoError(t, e.Close())
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	for _, statement := range []string{
		"ALTER TABLE hw_members DROP COLUMN ttl",
		"ALTER TABLE hw_members DROP COLUMN run",
		"ALTER TABLE hw_tasks DROP COLUMN created",
		"ALTER TABLE hw_tasks DROP COLUMN calls",
		"ALTER TABLE hw_tasks DROP COLUMN failures",
		"UPDATE hw_tasks SET attempts = 2",
		"DROP INDEX hw_executions_by_time",
		"CREATE INDEX hw_executions_by_time ON hw_executions (at)",
		"INSERT INTO hw_members (name, topics, until) VALUES ('a', 'null', 9999999999999)",
		"UPDATE hw_meta SET value = 1 WHERE name = 'schema'",
	} {
		_, err := db.Exec(statement)
		require.NoError(t, err)
	}
	e = openEngine(t, path)
	topics, err := e.Topics(t.Context())
	require.NoError(t, err)
	require.Len(t, topics, 1)
	batch, err := e.Lease(t.Context(), engine.Ask{Topic: "t", Node: "a", Max: 2, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, batch.Leased, 2)
	for _, leased := range batch.Leased {
		require.Zero(t, leased.Created, "nobody has written it down")
		require.Equal(t, []int{3, 3, 2}, []int{leased.Attempts, leased.Calls, leased.Failures})
		if leased.ID == "old" {
			require.Equal(t, callback, leased.Callback)
		}
	}
	for range 2 {
		view, err := e.Heartbeat(t.Context(), engine.Node{Name: "a", Run: "1"}, time.Minute)
		require.NoError(t, err)
		require.Equal(t, []engine.Node{{Name: "a"}}, view.Nodes)
		require.Empty(t, view.Other, "a member of an earlier version has no run")
	}
	var columns int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM pragma_index_info('hw_executions_by_time')").Scan(&columns))
	require.Equal(t, 2, columns)
	require.NoError(t, db.Close())
}

func TestTablesOfANewerVersionAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	e, err := sqlite.Open(path, sqlite.Config{})
	require.NoError(t, err)
	require.NoError(t, e.Close())
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "UPDATE hw_meta SET value = 99 WHERE name = 'schema'")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = sqlite.Open(path, sqlite.Config{})
	require.ErrorIs(t, err, engine.ErrArgument)
	require.ErrorContains(t, err, "99")
}

func TestWhatCantBeOpened(t *testing.T) {
	dir := t.TempDir()
	for _, bad := range []struct {
		path string
		cfg  sqlite.Config
	}{
		{"", sqlite.Config{}},
		{":memory:", sqlite.Config{}},
		{"file:x.db?mode=memory", sqlite.Config{}},
		{filepath.Join(dir, "a.db"), sqlite.Config{Sync: 7}},
		{filepath.Join(dir, "a.db"), sqlite.Config{BusyTimeout: -1}},
	} {
		_, err := sqlite.Open(bad.path, bad.cfg)
		require.ErrorIs(t, err, engine.ErrArgument, bad)
	}
	_, err := sqlite.Open(filepath.Join(dir, "missing", "a.db"), sqlite.Config{})
	require.ErrorContains(t, err, "missing")
}

func TestAClosedEngineSaysSo(t *testing.T) {
	e, err := sqlite.Open(filepath.Join(t.TempDir(), "tasks.db"), sqlite.Config{})
	require.NoError(t, err)
	require.NoError(t, e.Close())
	ctx, keys := t.Context(), []engine.Key{key("x")}
	for name, call := range map[string]func() error{
		"SetTopic":   func() error { _, err := e.SetTopic(ctx, engine.Topic{Name: "t"}, false); return err },
		"Topics":     func() error { _, err := e.Topics(ctx); return err },
		"DropTopic":  func() error { return e.DropTopic(ctx, "t") },
		"Count":      func() error { _, err := e.Count(ctx, "t"); return err },
		"Set":        func() error { _, err := e.Set(ctx, nil); return err },
		"Move":       func() error { _, err := e.Move(ctx, nil); return err },
		"Remove":     func() error { _, err := e.Remove(ctx, []engine.Removal{{Key: keys[0]}}); return err },
		"Replay":     func() error { _, err := e.Replay(ctx, keys); return err },
		"Get":        func() error { _, err := e.Get(ctx, keys); return err },
		"List":       func() error { _, err := e.List(ctx, engine.Query{Topic: "t", State: 1}); return err },
		"Lease":      func() error { _, err := e.Lease(ctx, engine.Ask{Topic: "t"}); return err },
		"Extend":     func() error { _, err := e.Extend(ctx, nil, time.Second); return err },
		"Maintain":   func() error { _, err := e.Maintain(ctx); return err },
		"Heartbeat":  func() error { _, err := e.Heartbeat(ctx, engine.Node{Name: "n"}, time.Second); return err },
		"Leave":      func() error { return e.Leave(ctx, "n") },
		"Now":        func() error { _, err := e.Now(ctx); return err },
		"Executions": func() error { _, err := e.Executions(ctx, key("x"), 1); return err },
		"Claim":      func() error { _, err := e.Claim(ctx, "t", "n", nil, time.Second); return err },
		"ScanBefore": func() error { _, err := e.ScanBefore(ctx, "t", nil, time.Now(), "", 1); return err },
	} {
		require.ErrorIs(t, call(), engine.ErrClosed, name)
	}
}

func TestAContextEndsTheWaitForAnotherWriter(t *testing.T) {
	r := newRig(t, engine.Topic{})
	path := filepath.Join(t.TempDir(), "tasks.db")
	var err error
	r.Engine, err = sqlite.Open(path, sqlite.Config{BusyTimeout: time.Minute})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	r.topic(engine.Topic{})
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	require.NoError(t, err)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err = r.Set(ctx, []engine.Task{{Topic: "t", ID: "x"}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(begin), 30*time.Second)
	require.Equal(t, engine.None, r.get("x").State, "reading goes on")
	require.Empty(t, r.leaseBatch(engine.Ask{Max: 1}).Leased, "and so does looking for what is due")

	done := make(chan error)
	go func() {
		_, err := r.Set(context.Background(), []engine.Task{{Topic: "t", ID: "x"}})
		done <- err
	}()
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, tx.Rollback())
	require.NoError(t, <-done, "it waits for its turn")
}

// Processes of a version before don't know when a pause ends, and leave that out when they change the topic.
func TestAPauseIsForAVersionBeforeOneThatSomebodyHasToEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	e := openEngine(t, path)
	ctx := t.Context()
	_, err := e.SetTopic(ctx, engine.Topic{Name: "t"}, true)
	require.NoError(t, err)
	_, err = e.Set(ctx, []engine.Task{{Topic: "t", ID: "x"}})
	require.NoError(t, err)
	_, err = e.Pause(ctx, "t", true, time.Now().Add(time.Hour))
	require.NoError(t, err)
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	for _, until := range []string{`config ->> 'paused_until'`, `'2020-01-01T00:00:00Z'`} {
		var paused bool
		require.NoError(t, db.QueryRow("SELECT config ->> 'paused' FROM hw_topics").Scan(&paused))
		require.True(t, paused)
		_, err = db.Exec("UPDATE hw_topics SET config = json_set(config, '$.paused_until', " + until + ")")
		require.NoError(t, err)
	}
	batch, err := e.Lease(ctx, engine.Ask{Topic: "t", Max: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, batch.Leased, 1, "it has ended")
	_, err = db.Exec("UPDATE hw_topics SET config = json_remove(config, '$.paused_until')")
	require.NoError(t, err)
	topics, err := e.Topics(ctx)
	require.NoError(t, err)
	require.True(t, topics[0].Paused && topics[0].PausedUntil.IsZero())
	batch, err = e.Lease(ctx, engine.Ask{Topic: "t", Max: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Empty(t, batch.Leased)
	require.Zero(t, batch.Next)
}
