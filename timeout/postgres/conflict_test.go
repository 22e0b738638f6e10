package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// A database can have another isolation level than PostgreSQL's default. Then the server aborts a
// transaction that waits for a row, if another one changes the row.
func TestACallThatMeetsAnotherOneIsMadeAgain(t *testing.T) {
	calls := map[string]func(context.Context, *postgres.Engine) error{
		"a heartbeat": func(ctx context.Context, e *postgres.Engine) error {
			_, err := e.Heartbeat(ctx, engine.Node{Name: "b"}, time.Minute)
			return err
		},
		"a node leaves": func(ctx context.Context, e *postgres.Engine) error { return e.Leave(ctx, "a") },
		"a topic": func(ctx context.Context, e *postgres.Engine) error {
			_, err := e.SetTopic(ctx, engine.Topic{Name: "orders", Slots: 16}, false)
			return err
		},
		"a pause": func(ctx context.Context, e *postgres.Engine) error {
			_, err := e.Pause(ctx, "orders", true, time.Time{})
			return err
		},
	}
	for _, level := range []string{"repeatable read", "serializable"} {
		for name, call := range calls {
			t.Run(level+"/"+name, func(t *testing.T) {
				setting := "default_transaction_isolation=" + url.PathEscape(level)
				e, err := postgres.Open(t.Context(), sharedURL(t, setting), postgres.Config{Schema: newSchema()})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, e.Close()) })
				_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
				require.NoError(t, err)
				_, err = e.Heartbeat(t.Context(), engine.Node{Name: "a"}, time.Minute)
				require.NoError(t, err)

				pool := newPool(t)
				other, err := pool.Begin(t.Context())
				require.NoError(t, err)
				defer other.Rollback(context.Background())
				for _, change := range []string{".hw_view SET term = term + 1", ".hw_topics SET paused = paused"} {
					_, err = other.Exec(t.Context(), "UPDATE "+schemaOf(e)+change)
					require.NoError(t, err)
				}
				ended := make(chan error, 1)
				go func() { ended <- call(t.Context(), e) }()
				require.Eventually(t, func() (waits bool) {
					err := pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid)))", int32(other.Conn().PgConn().PID())).Scan(&waits)
					return err == nil && waits
				}, time.Minute, 5*time.Millisecond)
				require.NoError(t, other.Commit(t.Context()))
				require.NoError(t, <-ended)
			})
		}
	}
}

func TestTwoNodesMakeTheTablesAtOnceOnADatabaseWithAnotherIsolationLevel(t *testing.T) {
	pool, schema := newPool(t), newSchema()
	holder, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer holder.Rollback(context.Background())
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", int64(postgres.MigrationLock))
	require.NoError(t, err)
	opened := make(chan error, 2)
	for range cap(opened) {
		go func() {
			e, err := postgres.Open(t.Context(), sharedURL(t, "default_transaction_isolation=serializable"), postgres.Config{Schema: schema})
			if err == nil {
				err = e.Close()
			}
			opened <- err
		}()
	}
	require.Eventually(t, func() bool {
		waiting := 0
		err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))", int32(holder.Conn().PgConn().PID())).Scan(&waiting)
		return err == nil && waiting == cap(opened)
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, holder.Commit(t.Context()))
	for range cap(opened) {
		require.NoError(t, <-opened)
	}
}

func TestManyNodesSendHeartbeatsAtOnceOnADatabaseWithAnotherIsolationLevel(t *testing.T) {
	const nodes = 40
	setting := "default_transaction_isolation=" + url.PathEscape("repeatable read")
	e, err := postgres.Open(t.Context(), sharedURL(t, setting)+"&pool_max_conns=40", postgres.Config{Schema: newSchema()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	sent := make(chan error, nodes)
	for range 5 {
		for i := range nodes {
			go func() {
				_, err := e.Heartbeat(t.Context(), engine.Node{Name: fmt.Sprint(i)}, time.Minute)
				sent <- err
			}()
		}
		for range nodes {
			require.NoError(t, <-sent)
		}
	}
	view, err := e.Heartbeat(t.Context(), engine.Node{Name: "0"}, time.Minute)
	require.NoError(t, err)
	require.Len(t, view.Nodes, nodes)
}

// stopping are the connections of a process that is stopped before it writes some words.
type stopping struct {
	words            string
	once             sync.Once
	stopped, goingOn chan struct{}
}

type stoppingConn struct {
	net.Conn
	*stopping
}

func (c stoppingConn) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte(c.words)) {
		c.once.Do(func() { close(c.stopped) })
		<-c.goingOn
	}
	return c.Conn.Write(text)
}

// A heartbeat takes locks that all nodes want. The node may be stopped before it prepares the statements, or before it
// executes them.
func TestANodeThatIsStoppedInItsHeartbeatHoldsUpNobodyForLong(t *testing.T) {
	for _, words := range []string{"DELETE FROM", "the stopped one"} {
		t.Run(words, func(t *testing.T) { testStopped(t, words) })
	}
}

func testStopped(t *testing.T, words string) {
	t.Parallel()
	e := open(t, newSchema())
	cfg, err := pgxpool.ParseConfig(sharedURL(t))
	require.NoError(t, err)
	s := &stopping{words: words, stopped: make(chan struct{}), goingOn: make(chan struct{})}
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return stoppingConn{conn, s}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer pool.Close()
	other, err := postgres.New(t.Context(), pool, postgres.Config{Schema: e.Schema()})
	require.NoError(t, err)
	defer other.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := other.Heartbeat(context.Background(), engine.Node{Name: "the stopped one"}, time.Minute)
		sent <- err
	}()
	<-s.stopped
	require.Eventually(t, func() bool {
		within, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		view, err := e.Heartbeat(within, engine.Node{Name: "other"}, time.Minute)
		if err != nil {
			return false
		}
		require.Equal(t, []engine.Node{{Name: "other"}}, view.Nodes, "the heartbeat of the one that is stopped is not counted")
		return true
	}, time.Minute, 100*time.Millisecond)
	close(s.goingOn)
	require.NoError(t, <-sent, "its transaction has not begun")
	view, err := other.Heartbeat(t.Context(), engine.Node{Name: "the stopped one"}, time.Minute)
	require.NoError(t, err, "and it sends heartbeats again")
	require.Len(t, view.Nodes, 2)
}
