package postgres_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// The tables are of version 4, with a living member, and its process goes on beating.
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
	earlier := func() { // as its Beat does
		exec(`INSERT INTO {s}.hw_members (name, topics, until, ttl) VALUES ('a', 'null', 9999999999999, 1000)
			ON CONFLICT (name) DO UPDATE SET topics = excluded.topics, until = excluded.until, ttl = excluded.ttl`)
	}
	earlier()
	e := open(t, schema)
	beat := func(run string) string {
		view, err := e.Beat(t.Context(), engine.Node{Name: "a", Run: run}, time.Minute)
		require.NoError(t, err)
		require.Equal(t, []engine.Node{{Name: "a"}}, view.Nodes)
		return view.Other
	}
	require.Empty(t, beat("1"))
	earlier()
	require.Empty(t, beat("1"))
	require.Equal(t, "1", beat("2"))
}

// A process of an earlier version has leased from a topic with a limit for all nodes, and still runs: it reads fences and the
// number of the view.
func TestAProcessThatNeedsFencesStillFindsThem(t *testing.T) {
	schema, pool := newSchema(), newPool(t)
	exec := func(sql string) error {
		_, err := pool.Exec(t.Context(), strings.ReplaceAll(sql, "{s}", schema), pgx.QueryExecModeSimpleProtocol)
		return err
	}
	require.NoError(t, exec(`CREATE SCHEMA {s}; CREATE TABLE {s}.hw_migrations (version integer PRIMARY KEY); INSERT INTO {s}.hw_migrations SELECT * FROM generate_series(1, 7)`))
	files, err := os.ReadDir("migrations")
	require.NoError(t, err)
	for _, file := range files[:7] {
		text, err := os.ReadFile("migrations/" + file.Name())
		require.NoError(t, err)
		require.NoError(t, exec(string(text)))
	}
	require.NoError(t, exec(`INSERT INTO {s}.hw_topics (name, attempts, paused, config) VALUES ('orders', 17, false, '{"name":"orders","slots":8,"global_concurrency":16}');
		INSERT INTO {s}.hw_tasks (filed, due, version, lease, topic, attempts, slot, state, was, id, node, error)
		VALUES (1000, 1000, nextval('{s}.hw_number'), 0, 1, 0, 0, 1, 0, 'waits', '', '');
		INSERT INTO {s}.hw_fences SELECT 1, slot, 9, 9999999999999 FROM generate_series(0, 7) AS slot;
		INSERT INTO {s}.hw_members (name, topics, until, ttl, run) VALUES ('a', '["orders"]', 9999999999999, 10000, 'x');
		UPDATE {s}.hw_view SET term = 9`))
	e := open(t, schema)
	topics, err := e.Topics(t.Context())
	require.NoError(t, err)
	require.Equal(t, 16, topics[0].GlobalConcurrency)
	batch, err := e.Expire(t.Context(), engine.Ask{Topic: "orders", Node: "b", Max: 2, Lease: time.Minute, Slots: []int{0}})
	require.NoError(t, err)
	require.Len(t, batch.Leased, 1)
	view, err := e.Beat(t.Context(), engine.Node{Name: "b"}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, []engine.Node{{Name: "a", Topics: []string{"orders"}}, {Name: "b"}}, view.Nodes)
	_, err = e.Upkeep(t.Context())
	require.NoError(t, err)
	require.NoError(t, e.DropTopic(t.Context(), "orders"))
	require.NoError(t, exec(`SELECT topic, slot, term, at FROM {s}.hw_fences; SELECT term FROM {s}.hw_view FOR UPDATE`))
}
