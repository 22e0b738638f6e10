package postgres_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

func TestAServerThatTakesNoChangesIsRefused(t *testing.T) {
	schema := newSchema()
	open(t, schema) // the tables are there
	_, err := postgres.Open(t.Context(), sharedURL(t, "default_transaction_read_only=on"), postgres.Config{Schema: schema})
	require.ErrorContains(t, err, "the server is read-only")
	require.NotErrorIs(t, err, engine.ErrArgument, "which would end what can wait for a failover")
}

// What becomes read-only later, as by a failover, is no longer ready, and is again.
func TestAServerThatBecomesReadOnlySaysSo(t *testing.T) {
	var readOnly atomic.Bool
	cfg, err := pgxpool.ParseConfig(sharedURL(t))
	require.NoError(t, err)
	cfg.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		mode := "off"
		if readOnly.Load() {
			mode = "on"
		}
		_, err := conn.Exec(ctx, "SET default_transaction_read_only = "+mode)
		return err == nil, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	e, err := postgres.New(t.Context(), pool, postgres.Config{Schema: newSchema()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, true)
	require.NoError(t, err)
	set(t, e, engine.Task{ID: "1"})

	readOnly.Store(true)
	_, err = e.Topics(t.Context())
	require.ErrorContains(t, err, "the server is read-only")
	require.Equal(t, engine.Pending, get(t, e, "1").State, "what is there can be looked at")

	readOnly.Store(false)
	topics, err := e.Topics(t.Context())
	require.NoError(t, err)
	require.Len(t, topics, 1)
}

// The server is made a standby and promoted again, as two failovers do.
func TestAStandbyIsRefusedUntilItIsPromoted(t *testing.T) {
	server := testserver.Postgres(t, testserver.NoFsync)
	e, err := postgres.Open(t.Context(), server.URL, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, true)
	require.NoError(t, err)
	set(t, e, engine.Task{ID: "1"})

	server.Stop(t)
	require.NoError(t, os.WriteFile(filepath.Join(server.Dir, "data", "standby.signal"), nil, 0o600))
	server.Restart(t)
	require.Eventually(t, func() bool {
		_, err = e.Topics(t.Context())
		return err != nil && strings.Contains(err.Error(), "standby")
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, engine.Pending, get(t, e, "1").State)
	_, err = postgres.Open(t.Context(), server.URL, postgres.Config{})
	require.ErrorContains(t, err, "the server is a standby (pg_is_in_recovery), must be the primary")

	conn, err := pgx.Connect(t.Context(), server.URL)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "SELECT pg_promote()")
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	require.Eventually(t, func() bool { _, err = e.Topics(t.Context()); return err == nil }, time.Minute, 20*time.Millisecond)
	set(t, e, engine.Task{ID: "2"})
}
