package done_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/index"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// Handlers have all connections of the pool that the engine shares when they end their tasks.
func TestDoneTxNeedsNoOtherConnection(t *testing.T) {
	cfg, err := pgxpool.ParseConfig(testserver.Database(t))
	require.NoError(t, err)
	cfg.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	e, err := postgres.New(t.Context(), pool, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	c, err := timeout.New(e, timeout.Config{Topic: timeout.Topic{Lease: time.Hour}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, c.Handle(key.Topic, func(ctx context.Context, _ timeout.Task) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			time.Sleep(1500 * time.Millisecond) // longer than the engine remembers topics
			return e.DoneTx(ctx, tx)
		})
	}))
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ran) })
	for i := range 4 {
		_, err = c.Set(t.Context(), timeout.Task{Topic: key.Topic, ID: strconv.Itoa(i), After: time.Second})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return stats(t, c).Done == 4 }, soon, 10*time.Millisecond)
	require.Zero(t, stats(t, c).Failed)
	require.Zero(t, stats(t, c).Lost)
}

// An operator executes what Pending returns.
func TestTheSQLOfPendingMakesTheTables(t *testing.T) {
	url := testserver.Database(t)
	left, err := postgres.Pending(t.Context(), url, postgres.Config{Schema: "of_ours"})
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	for _, m := range left {
		_, err := conn.PgConn().Exec(t.Context(), m.SQL).ReadAll()
		require.NoError(t, err, m.Name)
	}
	e, err := postgres.Open(t.Context(), url, postgres.Config{Schema: "of_ours", NoMigrate: true})
	require.NoError(t, err)
	require.NoError(t, e.Close())
}

// An index in front of the database hears of the next run.
func TestThePeriodicTaskOfAHandlersTransactionIsOnTimeBehindAnIndex(t *testing.T) {
	onEach(t, "", func(t *testing.T, s store) {
		m, err := memory.New(memory.Config{})
		require.NoError(t, err)
		s.engine, err = index.New(s.engine.(engine.Primary), m, index.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		began := time.Now()
		c := run(t, s, timeout.Topic{Every: "1s"}, func(_ *timeout.Center, ctx context.Context, _ timeout.Task) error {
			tx := s.begin(ctx)
			if err := errors.Join(tx.work(ctx), tx.done(ctx)); err != nil {
				return errors.Join(err, tx.rollback())
			}
			return tx.commit()
		})
		require.Eventually(t, func() bool { return stats(t, c).Done >= 5 }, soon, 10*time.Millisecond)
		require.Less(t, time.Since(began), 15*time.Second, "a run that nobody hears of waits for a look, 5 s")
		require.Zero(t, stats(t, c).Lost)
	})
}
