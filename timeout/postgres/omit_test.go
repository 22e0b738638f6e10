package postgres_test

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

func TestAListWithoutPayloadsReadsNone(t *testing.T) {
	const large = 8
	schema := newSchema()
	cfg, err := pgxpool.ParseConfig(sharedURL(t))
	require.NoError(t, err)
	cfg.MaxConns = 1 // a connection tells what itself has read
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	e, err := postgres.New(t.Context(), pool, postgres.Config{Schema: schema})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "t"}, false)
	require.NoError(t, err)
	payload := make([]byte, engine.MaxPayload)
	_, _ = rand.Read(payload) // PostgreSQL would compress zeros
	for i := range large {
		_, err = e.Set(t.Context(), []engine.Task{{Topic: "t", ID: fmt.Sprint(i), After: time.Hour, Payload: payload}})
		require.NoError(t, err)
	}

	// read returns how many blocks with payloads were read.
	read := func() (blocks int64) {
		_, err := pool.Exec(t.Context(), "SELECT pg_stat_force_next_flush()")
		require.NoError(t, err)
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT toast_blks_read + toast_blks_hit FROM pg_statio_all_tables WHERE schemaname = $1 AND relname = 'hw_tasks'", schema).Scan(&blocks))
		return blocks
	}
	before := read()
	page, err := e.List(t.Context(), engine.Query{Topic: "t", State: engine.Pending, OmitPayload: true})
	require.NoError(t, err)
	require.Len(t, page.Tasks, large)
	require.Equal(t, before, read())
	for _, task := range page.Tasks {
		require.Equal(t, engine.MaxPayload, task.PayloadBytes)
	}
	_, err = e.List(t.Context(), engine.Query{Topic: "t", State: engine.Pending, Limit: 2})
	require.NoError(t, err)
	require.Greater(t, read()-before, int64(2*engine.MaxPayload/8192), "the test would see it")
}
