//go:build interop

package main

import (
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// server starts a program that listens at an address, and waits until it does.
func server(t *testing.T, addr, name string, args ...string) {
	cmd := exec.Command(name, args...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, eternal, 20*time.Millisecond)
}

// free returns an address that nobody listens at.
func free(t *testing.T) (addr, port string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	_, port, err = net.SplitHostPort(ln.Addr().String())
	require.NoError(t, err)
	return ln.Addr().String(), port
}

// redisServer starts a Redis of its own, and returns its URL.
func redisServer(t *testing.T) string {
	addr, port := free(t)
	server(t, addr, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	return "redis://" + addr
}

// etcdServer starts an etcd of its own, and returns its address.
func etcdServer(t *testing.T) string {
	addr, _ := free(t)
	peer, _ := free(t)
	server(t, addr, "etcd", "--data-dir", t.TempDir(), "--log-level", "error", "--unsafe-no-fsync",
		"--listen-client-urls", "http://"+addr, "--advertise-client-urls", "http://"+addr,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer, "--initial-cluster", "default=http://"+peer)
	return addr
}

func TestTwoWithRedis(t *testing.T) { testTwo(t) }

func TestTwoWithEtcd(t *testing.T) { testTwo(t, "ETCD_ENDPOINTS="+etcdServer(t)) }

// Two processes share a Redis: each has its slots, and when one is killed the other has all.
func testTwo(t *testing.T, env ...string) {
	to, url := newTarget(t), redisServer(t)
	with := process{args: []string{"-callback-allow", "127.0.0.0/8", "-ttl", "1s"}, env: append(env, "REDIS_URL="+url)}
	one, other := start(t, with), start(t, with)
	one.setTopic(t, to)
	owners := func(p *process) int {
		stats, topic := p.stats(t)
		seen := make(map[string]bool)
		for _, owner := range topic.Owners {
			seen[owner] = true
		}
		if len(stats.Members.Nodes) != len(seen) {
			return -1
		}
		return len(seen)
	}
	require.Eventually(t, func() bool { return owners(one) == 2 && owners(other) == 2 }, eternal, 50*time.Millisecond)
	const n = 400
	one.setMany(t, n)
	time.Sleep(300 * time.Millisecond)
	require.NoError(t, one.cmd.Process.Kill())
	require.Eventually(t, func() bool { tasks, _ := to.called(); return tasks == n }, eternal, 20*time.Millisecond)
	require.Eventually(t, func() bool { return owners(other) == 1 }, eternal, 50*time.Millisecond)
	_, topic := other.stats(t)
	require.Zero(t, topic.Here.Early)
	require.Len(t, topic.Here.Slots, 8)
}
