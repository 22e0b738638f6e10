package testserver

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Redis starts a Redis server. It keeps nothing on disk unless args say so. The args come last on
// its command line, such as "--appendonly", "yes".
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, redis(args...))
}

// SharedRedis returns the Redis server shared by the tests of this package. The tests must keep
// their keys apart.
func SharedRedis(t testing.TB) *Server {
	t.Helper()
	return sharedRedis.get(t, redis())
}

var sharedRedis shared

func redis(args ...string) program {
	return program{
		name:   "redis-server",
		scheme: "redis",
		command: func(s *Server) (string, []string, error) {
			name, err := find("redis-server", "redis-server")
			return name, append([]string{
				"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.Dir,
				"--save", "", "--appendonly", "no", "--daemonize", "no",
			}, args...), err
		},
		ready: func(ctx context.Context, s *Server) error { return ping(ctx, s.Addr) },
		stop:  syscall.SIGTERM,
		quit:  syscall.SIGKILL,
	}
}

// ping asks a Redis server whether it serves. A demand for a password means yes.
func ping(ctx context.Context, addr string) error {
	conn, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	if err != nil {
		return err
	}
	if said := string(answer[:n]); !strings.HasPrefix(said, "+PONG") && !strings.HasPrefix(said, "-NOAUTH") {
		return fmt.Errorf("redis-server answers %q", said)
	}
	return nil
}
