package postgres_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/process"
	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// startPooler starts PgBouncer in transaction mode in front of the shared server.
func startPooler(t *testing.T) (url string) {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program = "/usr/sbin/pgbouncer"; exec.Command(program, "--version").Run() != nil {
			t.Skip("no pgbouncer: apt-get install pgbouncer")
		}
	}
	host, port, err := net.SplitHostPort(testserver.SharedPostgres(t).Addr)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := ln.Addr().(*net.TCPAddr)
	require.NoError(t, ln.Close())
	who := ""
	if os.Geteuid() == 0 {
		who = "user = postgres" // it refuses to run as root
	}
	config := filepath.Join(t.TempDir(), "pgbouncer.ini")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=%s port=%s user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
%s
`, host, port, address.Port, who), 0o600))
	pooler, err := process.Start(exec.Command(program, "-q", config))
	require.NoError(t, err)
	t.Cleanup(func() {
		pooler.Kill()
		<-pooler.Ended()
	})
	url = fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&default_query_exec_mode=exec", address)
	require.Eventually(t, func() bool {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return false
		}
		return conn.Close(t.Context()) == nil
	}, time.Minute, 10*time.Millisecond)
	return url
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
	go func() { ended <- e.Wake(ctx, func(topic string) { woken <- topic }) }()
	require.Empty(t, <-woken, "it listens")
	set(t, other, engine.Task{ID: "1", After: time.Second})
	require.Equal(t, "orders", <-woken)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}
