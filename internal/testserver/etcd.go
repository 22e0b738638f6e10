package testserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Etcd starts an etcd server, a cluster of one. The args come last on its command line.
func Etcd(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, etcd(args...))
}

// SharedEtcd returns the etcd server shared by the tests of this package. The tests must keep
// their keys apart.
func SharedEtcd(t testing.TB) *Server {
	t.Helper()
	return sharedEtcd.get(t, etcd())
}

var sharedEtcd shared

func etcd(args ...string) program {
	return program{
		name:   "etcd",
		scheme: "http",
		command: func(s *Server) (string, []string, error) {
			name, err := find("etcd", "etcd-server")
			peers := "http://" + address(s.port+busOffset)
			return name, append([]string{
				"--name", "test", "--data-dir", filepath.Join(s.Dir, "data"),
				"--listen-client-urls", s.URL, "--advertise-client-urls", s.URL,
				"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
				"--initial-cluster", "test=" + peers,
			}, args...), err
		},
		ready: healthy,
		stop:  syscall.SIGTERM,
		quit:  syscall.SIGKILL,
	}
}

// healthy asks an etcd server whether it has a leader and therefore serves.
func healthy(ctx context.Context, s *Server) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/health", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err == nil && !strings.Contains(string(said), `"true"`) {
		err = fmt.Errorf("etcd answers %s", said)
	}
	return err
}
