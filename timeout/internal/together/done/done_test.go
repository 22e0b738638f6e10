// Package done_test ends tasks in transactions of their handlers' own.
package done_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// store is a database with an engine and a table of a program's own.
type store struct {
	engine engine.Engine
	begin  func(ctx context.Context) transaction
	rows   func(t *testing.T) (rows int)
}

// transaction is one of the program's own. Its work is a row.
type transaction struct {
	work, done       func(ctx context.Context) error
	commit, rollback func() error
}

var stores = map[string]func(t *testing.T) store{"postgres": inPostgres, "sqlite": inSQLite}

func inPostgres(t *testing.T) store {
	url := testserver.Database(t) + "&pool_max_conns=8"
	e, err := postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), "CREATE TABLE work (id integer)")
	require.NoError(t, err)
	return store{
		engine: e,
		begin: func(ctx context.Context) transaction {
			tx, err := pool.Begin(ctx)
			require.NoError(t, err)
			return transaction{
				work: func(ctx context.Context) error {
					_, err := tx.Exec(ctx, "INSERT INTO work VALUES (1)")
					return err
				},
				done:     func(ctx context.Context) error { return e.DoneTx(ctx, tx) },
				commit:   func() error { return tx.Commit(context.Background()) },
				rollback: func() error { return tx.Rollback(context.Background()) },
			}
		},
		rows: func(t *testing.T) (rows int) {
			require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM work").Scan(&rows))
			return rows
		},
	}
}

func inSQLite(t *testing.T) store {
	path := filepath.Join(t.TempDir(), "app.db")
	e, err := sqlite.Open(path, sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(60000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err = db.ExecContext(t.Context(), "CREATE TABLE work (id INTEGER)")
	require.NoError(t, err)
	return store{
		engine: e,
		begin: func(ctx context.Context) transaction {
			tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
			require.NoError(t, err)
			return transaction{
				work: func(ctx context.Context) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO work VALUES (1)")
					return err
				},
				done:     func(ctx context.Context) error { return sqlite.DoneTx(ctx, tx) },
				commit:   tx.Commit,
				rollback: tx.Rollback,
			}
		},
		rows: func(t *testing.T) (rows int) {
			require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM work").Scan(&rows))
			return rows
		},
	}
}

var key = timeout.Key{Topic: "orders", ID: "1"}

// run returns a running center on the store, with one task due now.
func run(t *testing.T, s store, topic timeout.Topic, handle func(c *timeout.Center, ctx context.Context, task timeout.Task) error) *timeout.Center {
	t.Helper()
	topic.Backoff, topic.BackoffMax = time.Millisecond, time.Millisecond
	c, err := timeout.New(s.engine, timeout.Config{Topic: topic, Poll: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, c.Handle(key.Topic, func(ctx context.Context, task timeout.Task) error { return handle(c, ctx, task) }))
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ran) })
	_, err = c.Set(t.Context(), timeout.Task{Topic: key.Topic, ID: key.ID})
	require.NoError(t, err)
	return c
}

func get(t *testing.T, c *timeout.Center) timeout.Task {
	t.Helper()
	task, err := c.Get(t.Context(), key)
	if errors.Is(err, timeout.ErrNotFound) {
		return timeout.Task{}
	}
	require.NoError(t, err)
	return task
}

func stats(t *testing.T, c *timeout.Center) timeout.Stats {
	t.Helper()
	for _, stats := range c.Stats() {
		if stats.Topic == key.Topic {
			return stats
		}
	}
	return timeout.Stats{}
}

const soon = time.Minute

func onEach(t *testing.T, name string, test func(t *testing.T, s store)) {
	for engine, open := range stores {
		t.Run(engine+name, func(t *testing.T) { test(t, open(t)) })
	}
}

func TestWorkAndTheEndOfItsTaskAreOneCommit(t *testing.T) {
	for _, retain := range []time.Duration{0, time.Hour} {
		onEach(t, fmt.Sprint(" retain=", retain), func(t *testing.T, s store) {
			c := run(t, s, timeout.Topic{Retain: retain}, func(_ *timeout.Center, ctx context.Context, task timeout.Task) error {
				tx := s.begin(ctx)
				if err := errors.Join(tx.work(ctx), tx.done(ctx)); err != nil || task.Attempts == 1 {
					return errors.Join(errors.New("rolled back"), err, tx.rollback())
				}
				return tx.commit()
			})
			require.Eventually(t, func() bool { return stats(t, c).Done == 1 }, soon, 10*time.Millisecond)
			require.Equal(t, 1, s.rows(t))
			if task := get(t, c); retain > 0 {
				require.Equal(t, timeout.Done, task.State)
				require.Equal(t, 2, task.Attempts)
				log, err := c.Executions(t.Context(), key, 1)
				require.NoError(t, err)
				require.Equal(t, timeout.Done, log[0].As)
				require.False(t, log[0].Started.IsZero())
			} else {
				require.Equal(t, timeout.None, task.State)
			}
			require.EqualValues(t, 1, stats(t, c).Failed)
			_, err := c.Set(t.Context(), timeout.Task{Topic: key.Topic, ID: "after"}) // a second settlement would have been lost by its end
			require.NoError(t, err)
			require.Eventually(t, func() bool { return stats(t, c).Done == 2 }, soon, 10*time.Millisecond)
			require.Zero(t, stats(t, c).Lost)
		})
	}
}

func TestAPeriodicTaskEndsARunInItsHandlersTransaction(t *testing.T) {
	onEach(t, "", func(t *testing.T, s store) {
		var mu sync.Mutex
		var dues []time.Time
		c := run(t, s, timeout.Topic{Every: "1s"}, func(_ *timeout.Center, ctx context.Context, task timeout.Task) error {
			mu.Lock()
			dues = append(dues, task.Due)
			mu.Unlock()
			tx := s.begin(ctx)
			if err := errors.Join(tx.work(ctx), tx.done(ctx)); err != nil {
				return errors.Join(err, tx.rollback())
			}
			return tx.commit()
		})
		require.Eventually(t, func() bool { return stats(t, c).Done >= 3 }, soon, 10*time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		for i := range dues[1:] {
			require.True(t, dues[i+1].After(dues[i]), "%v is a run after that of %v", dues[i+1], dues[i])
		}
		require.Zero(t, stats(t, c).Lost)
		require.Equal(t, 0, get(t, c).Failures)
	})
}

func TestATransactionThatIsNotCommittedEndsNoTask(t *testing.T) {
	onEach(t, "", func(t *testing.T, s store) {
		c := run(t, s, timeout.Topic{Lease: time.Second}, func(_ *timeout.Center, ctx context.Context, task timeout.Task) error {
			tx := s.begin(ctx)
			if err := errors.Join(tx.work(ctx), tx.done(ctx)); err != nil {
				return errors.Join(err, tx.rollback())
			}
			if task.Attempts == 1 {
				return tx.rollback() // and nil
			}
			return tx.commit()
		})
		require.Eventually(t, func() bool { return get(t, c).State == timeout.None }, soon, 10*time.Millisecond)
		require.Equal(t, 1, s.rows(t))
		require.EqualValues(t, 1, stats(t, c).Again)
	})
}

func TestATaskThatIsNotTheHandlersAnyMoreIsNotEnded(t *testing.T) {
	onEach(t, "", func(t *testing.T, s store) {
		ends := make(chan error, 1)
		c := run(t, s, timeout.Topic{}, func(c *timeout.Center, ctx context.Context, task timeout.Task) error {
			if _, err := c.Set(context.Background(), timeout.Task{Topic: task.Topic, ID: task.ID, After: time.Hour}); err != nil {
				return err
			}
			held := context.WithoutCancel(ctx)
			tx := s.begin(held)
			ends <- errors.Join(tx.work(held), tx.done(held))
			return tx.rollback()
		})
		err := <-ends
		require.ErrorIs(t, err, timeout.ErrLeaseLost)
		require.ErrorContains(t, err, "orders")
		require.Equal(t, timeout.Pending, get(t, c).State)
		require.Zero(t, s.rows(t))
	})
}

func TestOnlyAHandlerEndsItsTask(t *testing.T) {
	onEach(t, "", func(t *testing.T, s store) {
		tx := s.begin(t.Context())
		require.ErrorIs(t, tx.done(t.Context()), timeout.ErrArgument)
		require.NoError(t, tx.work(t.Context()), "the transaction can go on")
		require.NoError(t, tx.commit())
		require.Equal(t, 1, s.rows(t))
	})
}
