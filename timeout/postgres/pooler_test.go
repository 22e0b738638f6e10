package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// startPooler starts PgBouncer in front of the shared server.
func startPooler(t *testing.T) (url string) {
	t.Helper()
	return testserver.Pooler(t, testserver.SharedPostgres(t)).URL
}

func openPooled(t *testing.T, url, schema string) *postgres.Engine {
	t.Helper()
	e, err := postgres.Open(t.Context(), url, postgres.Config{Schema: schema, ListenURL: sharedURL(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func TestBehindAPoolerItHearsWhatOthersSetFromTheServerItself(t *testing.T) {
	url, schema := startPooler(t), newSchema()
	e, other := openPooled(t, url, schema), openPooled(t, url, schema)
	_, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
	require.NoError(t, err)
	woken := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Wake(ctx, func(topic string) { woken <- topic }, func(engine.Key) {}) }()
	require.Empty(t, <-woken, "it listens")
	set(t, other, engine.Task{ID: "1", After: time.Second})
	require.Equal(t, "orders", <-woken)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}
