package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	testmain.Parallel(4) // they mostly wait
	testserver.Main(m)
}

// sharedURL returns the URL of the server for all tests that don't harm it.
func sharedURL(t testing.TB, options ...string) string {
	return strings.Join(append([]string{testserver.SharedPostgres(t).URL, "pool_max_conns=10"}, options...), "&")
}

var schemas atomic.Int64

func newSchema() string { return fmt.Sprintf("test_%d_%d", os.Getpid(), schemas.Add(1)) }

func open(t testing.TB, schema string) *postgres.Engine {
	t.Helper()
	engine, err := postgres.Open(context.Background(), sharedURL(t), postgres.Config{Schema: schema})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	return engine
}

// openTopic is open in a schema of its own, with a topic.
func openTopic(t testing.TB, topic engine.Topic) *postgres.Engine {
	t.Helper()
	e := open(t, newSchema())
	_, err := e.SetTopic(context.Background(), topic, false)
	require.NoError(t, err)
	return e
}

func newPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), sharedURL(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}
