package postgres_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// The tables are of version 4, with a living member, and its process goes on with its heartbeats.
func TestMembersOfAnEarlierVersionHaveNoRun(t *testing.T) {
	schema, pool := newSchema(), newPool(t)
	exec := func(sql string) {
		_, err := pool.Exec(t.Context(), strings.ReplaceAll(sql, "{s}", schema), pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	}
	exec(`CREATE SCHEMA {s}; CREATE TABLE {s}.hw_migrations (version integer PRIMARY KEY); INSERT INTO {s}.hw_migrations VALUES (1), (2), (3), (4)`)
	files, err := os.ReadDir("migrations")
	require.NoError(t, err)
	for _, file := range files[:4] {
		text, err := os.ReadFile("migrations/" + file.Name())
		require.NoError(t, err)
		exec(string(text))
	}
	earlier := func() { // as its Heartbeat does
		exec(`INSERT INTO {s}.hw_members (name, topics, until, ttl) VALUES ('a', 'null', 9999999999999, 1000)
			ON CONFLICT (name) DO UPDATE SET topics = excluded.topics, until = excluded.until, ttl = excluded.ttl`)
	}
	earlier()
	e := open(t, schema)
	heartbeat := func(run string) string {
		view, err := e.Heartbeat(t.Context(), engine.Node{Name: "a", Run: run}, time.Minute)
		require.NoError(t, err)
		require.Equal(t, []engine.Node{{Name: "a"}}, view.Nodes)
		return view.Other
	}
	require.Empty(t, heartbeat("1"))
	earlier()
	require.Empty(t, heartbeat("1"))
	require.Equal(t, "1", heartbeat("2"))
}

// requests counts the batches and the single queries of a connection.
type requests struct{ trips }

func (r *requests) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	r.Add(1)
	return ctx
}

func (r *requests) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	r.Add(1)
	return ctx
}

func TestAHeartbeatTakesOneRoundTrip(t *testing.T) {
	cfg, err := pgxpool.ParseConfig(sharedURL(t))
	require.NoError(t, err)
	r := new(requests)
	cfg.ConnConfig.Tracer = r
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	e, err := postgres.New(t.Context(), pool, postgres.Config{Schema: newSchema()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	for _, run := range []string{"1", "1", "2"} {
		r.Store(0)
		view, err := e.Heartbeat(t.Context(), engine.Node{Name: "a", Run: run}, time.Minute)
		require.NoError(t, err)
		require.Equal(t, engine.View{Nodes: []engine.Node{{Name: "a"}}, TTL: time.Minute, Other: map[string]string{"2": "1"}[run]}, view)
		require.EqualValues(t, 1, r.Load())
	}
	r.Store(0)
	require.NoError(t, e.Leave(t.Context(), "a"))
	require.EqualValues(t, 1, r.Load())
}
