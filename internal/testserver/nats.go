package testserver

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// NATS starts a NATS server with JetStream. The args come last on its command line.
func NATS(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, program{
		name:   "nats-server",
		scheme: "nats",
		command: func(s *Server) (string, []string, error) {
			name, err := find("nats-server", "nats-server", "/usr/sbin/nats-server")
			return name, append([]string{
				"--addr", "127.0.0.1", "--port", strconv.Itoa(s.port),
				"--jetstream", "--store_dir", filepath.Join(s.Dir, "data"),
			}, args...), err
		},
		ready: greets,
		stop:  syscall.SIGTERM,
		quit:  syscall.SIGKILL,
	})
}

// greets reads the greeting of a NATS server. It comes once the server is ready for JetStream.
func greets(ctx context.Context, s *Server) error {
	conn, err := dial(ctx, s.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	greeting := make([]byte, len("INFO "))
	if _, err := io.ReadFull(conn, greeting); err != nil {
		return err
	}
	if !strings.HasPrefix(string(greeting), "INFO ") {
		return fmt.Errorf("nats-server says %q", greeting)
	}
	return nil
}
