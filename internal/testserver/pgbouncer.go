package testserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Pooler starts PgBouncer in transaction mode in front of a PostgreSQL server.
func Pooler(t testing.TB, of *Server) *Server {
	t.Helper()
	return start(t, program{
		name:    "pgbouncer",
		scheme:  "postgres",
		path:    "/postgres?user=postgres&sslmode=disable&default_query_exec_mode=exec",
		prepare: func(s *Server) error { return preparePooler(s, of) },
		command: func(s *Server) (string, []string, error) {
			name, err := find("pgbouncer", "pgbouncer", "/usr/sbin/pgbouncer")
			return name, []string{"-q", s.poolerConfig()}, err
		},
		ready: func(ctx context.Context, s *Server) error {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
			if err != nil {
				return err
			}
			return conn.Close()
		},
		stop: syscall.SIGINT,
		quit: syscall.SIGKILL,
	})
}

func (s *Server) poolerConfig() string { return filepath.Join(s.Dir, "pgbouncer.ini") }

func preparePooler(s, of *Server) error {
	who, err := postgresUser() // it refuses to run as root
	if err != nil {
		return err
	}
	s.who = who
	config := fmt.Appendf(nil, `[databases]
* = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
`, of.port, s.port)
	if err := os.WriteFile(s.poolerConfig(), config, 0o600); err != nil {
		return err
	}
	return give(s.Dir, who)
}
