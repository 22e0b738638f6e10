package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// A server without synchronous_commit loses its last commits in a crash, and the state of its sequence with
// them, as a failover does and a backup.
func TestNumbersThatWereLostAreNotGivenAgain(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{"by the clock": "SELECT 1", "ahead of the clock": aheadOfTheClock} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testLostNumbers(t, begin)
		})
	}
}

// aheadOfTheClock sets the sequence an hour ahead, so the clock does not hide a lost raise.
const aheadOfTheClock = "SELECT setval('hw_number', (1000000 * extract(epoch FROM clock_timestamp() + interval '1 hour'))::bigint)"

// testLostNumbers begins with a statement about the sequence.
func testLostNumbers(t *testing.T, begin string) {
	server := testserver.Postgres(t, testserver.NoFsync, "synchronous_commit=off", "wal_writer_delay=10s")
	e, err := postgres.Open(t.Context(), server.URL, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { e.Close() })
	conn, err := pgx.Connect(t.Context(), server.URL)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(t.Context()) })
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
	require.NoError(t, err)
	task := engine.Task{Topic: "orders", ID: "1"}
	highest := int64(0)
	// use gives a version and a lease, above all of before.
	use := func(set func() ([]engine.Answer, error)) {
		t.Helper()
		var answers []engine.Answer
		var batch engine.Batch
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			answers, err = set()
			require.NoError(c, err)
		}, time.Minute, 10*time.Millisecond)
		require.Greater(t, answers[0].Version, highest)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			batch, err = e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "n", Max: 1, Lease: time.Hour})
			require.NoError(c, err)
		}, time.Minute, 10*time.Millisecond)
		require.Len(t, batch.Leased, 1)
		require.Greater(t, batch.Leased[0].Token.Lease, answers[0].Version)
		highest = batch.Leased[0].Token.Lease
	}
	direct := func() ([]engine.Answer, error) { return e.Set(t.Context(), []engine.Task{task}) }
	within := func() (answers []engine.Answer, err error) {
		conn, err := pgx.Connect(t.Context(), server.URL)
		if err != nil {
			return nil, err
		}
		defer conn.Close(t.Context())
		err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) (err error) {
			answers, err = e.SetTx(t.Context(), tx, []engine.Task{task})
			return err
		})
		return answers, err
	}
	_, err = conn.Exec(t.Context(), begin)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CHECKPOINT") // which flushes what was written so far
	require.NoError(t, err)
	for _, set := range []func() ([]engine.Answer, error){direct, within, direct} {
		writer := stopWriter(t, server)
		for range 40 { // a sequence writes down 32 numbers ahead
			use(direct)
		}
		server.Kill(t)
		require.NoError(t, syscall.Kill(writer, syscall.SIGKILL))
		server.Restart(t)
		use(set)
	}
}

// The first transaction of a caller's connection raises the sequence. A crash must not take back that raise either.
func TestNumbersOfACallersTransactionThatWereLostAreNotGivenAgain(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]error{"committed": nil, "rolled back": errors.New("rolled back")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testLostNumbersOfACaller(t, first)
		})
	}
}

// testLostNumbersOfACaller rolls the first transaction of each connection back, if it is to end with an error.
func testLostNumbersOfACaller(t *testing.T, first error) {
	server := testserver.Postgres(t, testserver.NoFsync, "synchronous_commit=off", "wal_writer_delay=10s")
	e, err := postgres.Open(t.Context(), server.URL, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { e.Close() })
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
	require.NoError(t, err)
	within := func(times int) (version int64, err error) {
		conn, err := pgx.Connect(t.Context(), server.URL)
		if err != nil {
			return 0, err
		}
		defer conn.Close(t.Context())
		end := first
		for range times {
			err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				answers, err := e.SetTx(t.Context(), tx, []engine.Task{{Topic: "orders", ID: "1"}})
				if err == nil {
					version, err = answers[0].Version, end
				}
				return err
			})
			if err != nil && !errors.Is(err, end) {
				return 0, err
			}
			end = nil
		}
		return version, err
	}
	conn, err := pgx.Connect(t.Context(), server.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	for _, statement := range []string{aheadOfTheClock, "CHECKPOINT"} {
		_, err = conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	writer := stopWriter(t, server)
	before, err := within(40) // a sequence writes down 32 numbers ahead
	require.NoError(t, err)
	server.Kill(t)
	require.NoError(t, syscall.Kill(writer, syscall.SIGKILL))
	server.Restart(t)
	var after int64
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		after, err = within(2)
		require.NoError(c, err)
	}, time.Minute, 10*time.Millisecond)
	require.Greater(t, after, before)
}

// One connection raises the sequence for all that come while it, or one of these, is open. If each did, a hundred of
// them would bring the numbers 100 s ahead of the clock, and a failover that loses this could repeat numbers.
func TestOneConnectionRaisesTheSequenceForTheOthers(t *testing.T) {
	t.Parallel()
	server := testserver.Postgres(t)
	var last []*postgres.Engine
	set := func() int64 {
		e, err := postgres.Open(t.Context(), server.URL, postgres.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { e.Close() })
		last = append(last, e)
		_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
		require.NoError(t, err)
		answers, err := e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: "1"}})
		require.NoError(t, err)
		return answers[0].Version
	}
	const raised = 1 << 20
	first := set()
	for range 5 {
		require.Less(t, set(), first+raised)
		require.NoError(t, last[0].Close())
		last = last[1:]
	}
	before := set()
	for _, e := range last {
		require.NoError(t, e.Close())
	}
	conn, err := pgx.Connect(t.Context(), server.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.Eventually(t, func() bool { // the server ends the last connections
		var marks int
		err = conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").Scan(&marks)
		return err == nil && marks == 0
	}, time.Minute, 10*time.Millisecond)
	require.Greater(t, set(), before+raised)
}

// far is a connection with a long way: what comes is read later.
type far struct{ net.Conn }

func (f far) Read(bytes []byte) (int, error) {
	n, err := f.Conn.Read(bytes)
	time.Sleep(20 * time.Millisecond)
	return n, err
}

// Nobody sees that the sequence is not raised yet, and raises it once more.
func TestConnectionsAtTheSameTimeRaiseTheSequenceOnce(t *testing.T) {
	t.Parallel()
	server := testserver.Postgres(t)
	engines := make([]*postgres.Engine, 20)
	for i := range engines {
		cfg, err := pgxpool.ParseConfig(server.URL)
		require.NoError(t, err)
		dial := cfg.ConnConfig.DialFunc
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return far{conn}, err
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		e, err := postgres.New(t.Context(), pool, postgres.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { e.Close() })
		engines[i] = e
	}
	_, err := engines[0].SetTopic(t.Context(), engine.Topic{Name: "orders"}, false)
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), server.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var before int64
	require.NoError(t, conn.QueryRow(t.Context(), aheadOfTheClock).Scan(&before))
	versions := make([]int64, len(engines))
	var all sync.WaitGroup
	for i, e := range engines {
		all.Go(func() {
			id := fmt.Sprint(i)
			answers, err := e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: id}})
			if assert.NoError(t, err) && assert.NoError(t, answers[0].Err) {
				versions[i] = answers[0].Version
			}
		})
	}
	all.Wait()
	const raised = 1 << 20
	require.Greater(t, slices.Min(versions), before+raised)
	require.Less(t, slices.Max(versions), before+2*raised)
}

// stopWriter stops the process that writes down what commits have left in memory. It stops it in its sleep: elsewhere
// the process may hold a lock that every commit waits for.
func stopWriter(t *testing.T, server *testserver.Server) (pid int) {
	conn, err := pgx.Connect(t.Context(), server.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'").Scan(&pid))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.NoError(c, syscall.Kill(pid, syscall.SIGSTOP))
		for stat := ""; !strings.Contains(stat, ") T "); {
			bytes, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			require.NoError(c, err)
			stat = string(bytes)
		}
		var at string
		err := conn.QueryRow(t.Context(), "SELECT coalesce(wait_event, '') FROM pg_stat_activity WHERE pid = $1", pid).Scan(&at)
		if err != nil || at != "WalWriterMain" {
			require.NoError(c, syscall.Kill(pid, syscall.SIGCONT))
		}
		require.NoError(c, err)
		require.Equal(c, "WalWriterMain", at)
	}, time.Minute, 10*time.Millisecond)
	return pid
}
