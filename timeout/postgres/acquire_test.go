package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// limitedPool returns a pool of up to ten connections for a role that may have only one, and the role's schema.
func limitedPool(t *testing.T) (pool *pgxpool.Pool, schema string) {
	t.Helper()
	schema = newSchema()
	admin := newPool(t)
	_, err := admin.Exec(t.Context(), fmt.Sprintf("CREATE ROLE %[1]s LOGIN CONNECTION LIMIT 1; CREATE SCHEMA %[1]s AUTHORIZATION %[1]s", schema))
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.Exec(context.Background(), fmt.Sprintf("DROP SCHEMA %[1]s CASCADE; DROP ROLE %[1]s", schema))
		require.NoError(t, err)
	})
	cfg, err := pgxpool.ParseConfig(sharedURL(t))
	require.NoError(t, err)
	cfg.ConnConfig.User = schema
	pool, err = pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool, schema
}

func TestCallsWaitForAConnectionThatIsThereIfTheServerTakesNoMore(t *testing.T) {
	pool, schema := limitedPool(t)
	e, err := postgres.New(t.Context(), pool, postgres.Config{Schema: schema})
	require.NoError(t, err)
	defer e.Close()
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
	require.NoError(t, err)
	var all sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		all.Go(func() {
			switch i % 4 {
			case 0, 1:
				_, errs[i] = e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: fmt.Sprint(i), After: time.Hour}})
			case 2:
				_, errs[i] = e.Heartbeat(t.Context(), engine.Node{Name: fmt.Sprint(i)}, time.Minute)
			case 3:
				_, errs[i] = e.Now(t.Context())
				if errs[i] == nil {
					errs[i] = e.Ready(t.Context())
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func TestACallEndsInTimeIfTheServerTakesNoMoreConnectionsAndNoneIsFree(t *testing.T) {
	pool, schema := limitedPool(t)
	e, err := postgres.New(t.Context(), pool, postgres.Config{Schema: schema})
	require.NoError(t, err)
	defer e.Close()
	held, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	release := sync.OnceFunc(held.Release)
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = e.Topics(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	time.AfterFunc(20*time.Millisecond, release)
	_, err = e.Topics(t.Context())
	require.NoError(t, err, "it waits for a connection that somebody else has")

	only, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer only.Release()
	other, err := pgxpool.NewWithConfig(t.Context(), pool.Config())
	require.NoError(t, err)
	defer other.Close()
	_, err = postgres.New(t.Context(), other, postgres.Config{Schema: schema})
	require.ErrorContains(t, err, "53300", "it has no connection to wait for")
}
