//go:build interop

package main

import (
	"fmt"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// redisServer starts a Redis of its own, and returns its URL.
func redisServer(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := ln.Addr().(*net.TCPAddr).Port
	require.NoError(t, ln.Close())
	cmd := exec.Command("redis-server", "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, eternal, 20*time.Millisecond)
	return "redis://" + addr
}

// Two processes share a Redis: each has its slots, and when one is killed the other has all.
func TestTwoOfThem(t *testing.T) {
	to, url := newTarget(t), redisServer(t)
	with := process{args: []string{"-callback-allow", "127.0.0.0/8", "-ttl", "1s"}, env: []string{"REDIS_URL=" + url}}
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
