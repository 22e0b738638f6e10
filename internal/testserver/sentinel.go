package testserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Sentinels starts three Sentinels that watch a Redis server under the name "watched". One of its replicas takes over soon
// after its end.
func Sentinels(t testing.TB, of *Server) []*Server {
	t.Helper()
	sentinels := make([]*Server, 3)
	for i := range sentinels {
		sentinels[i] = start(t, sentinel(of))
	}
	return sentinels
}

func sentinel(of *Server) program {
	return program{
		name:    "redis-sentinel",
		scheme:  "redis",
		prepare: func(s *Server) error { return prepareSentinel(s, of) },
		command: func(s *Server) (string, []string, error) {
			name, err := find("redis-server", "redis-server")
			return name, []string{s.sentinelConfig(), "--sentinel"}, err
		},
		ready: func(ctx context.Context, s *Server) error { return ping(ctx, s.Addr) },
		stop:  syscall.SIGTERM,
		quit:  syscall.SIGKILL,
	}
}

func (s *Server) sentinelConfig() string { return filepath.Join(s.Dir, "sentinel.conf") }

func prepareSentinel(s, of *Server) error {
	return os.WriteFile(s.sentinelConfig(), fmt.Appendf(nil, `port %d
bind 127.0.0.1
sentinel monitor watched 127.0.0.1 %d 2
sentinel down-after-milliseconds watched 1000
sentinel failover-timeout watched 5000
`, s.port, of.port), 0o600)
}
