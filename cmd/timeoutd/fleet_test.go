//go:build interop && unix

package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// newRedis starts a Redis of its own with its data on disk: timeoutd refuses others.
func newRedis(t *testing.T) *testserver.Server { return testserver.Redis(t, "--appendonly", "yes") }

// newEtcd starts an etcd of its own.
func newEtcd(t *testing.T) *testserver.Server { return testserver.Etcd(t, "--unsafe-no-fsync") }

func TestTwoWithRedis(t *testing.T) { testTwo(t, "REDIS_URL="+newRedis(t).URL) }

func TestTwoWithEtcd(t *testing.T) {
	testTwo(t, "REDIS_URL="+newRedis(t).URL, "ETCD_ENDPOINTS="+newEtcd(t).Addr)
}

func TestTwoWithZooKeeper(t *testing.T) {
	testTwo(t, "REDIS_URL="+newRedis(t).URL, "ZOOKEEPER="+testserver.ZooKeeper(t).Addr)
}

func TestTwoWithPostgres(t *testing.T) { testTwo(t, "DATABASE_URL="+testserver.Database(t)) }

// Two databases have a part of the tasks each. One is refused without the other, and both are
// refused in another order.
func TestTwoWithTwoDatabases(t *testing.T) {
	first, second := testserver.Database(t), testserver.Database(t)
	testTwo(t, "DATABASE_URL="+first+" "+second)
	for urls, want := range map[string]string{
		second:               "this is shard 2 of 2, and must be used with the others",
		second + " " + first: "it was made as shard 2 of 2",
	} {
		p := process{env: []string{"DATABASE_URL=" + urls}}
		p.launch(t)
		require.Error(t, p.wait())
		require.Contains(t, p.log.String(), want)
	}
}

func TestTwoWithFiles(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"a", "b", "c"} {
		files = append(files, filepath.Join(dir, name))
	}
	testTwo(t, "TIMEOUTD_SQLITE="+strings.Join(files, string(filepath.ListSeparator)))
}

// Each has a queue of its own, and both have what the file has.
func TestTwoWithQueuesInMemoryInFrontOfAFile(t *testing.T) {
	testTwo(t, "TIMEOUTD_INDEX=true", "TIMEOUTD_SQLITE="+filepath.Join(t.TempDir(), "tasks.db"))
}

func TestTwoWithRedisInFrontOfPostgres(t *testing.T) {
	testTwo(t, "DATABASE_URL="+testserver.Database(t), "REDIS_URL="+newRedis(t).URL)
}

// Two processes share a server, and each has its slots. When one is killed, the other has all
// slots.
func testTwo(t *testing.T, env ...string) {
	t.Parallel() // it waits for the ends of leases, and for callbacks
	to := newTarget(t)
	with := process{args: []string{"-callback-allow", "127.0.0.0/8", "-ttl", "3s"}, env: env}
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
	require.Eventually(t, func() bool { // the slots come a moment after the view of the nodes
		_, topic := other.stats(t)
		return owners(other) == 1 && topic.Here != nil && len(topic.Here.Slots) == 8
	}, eternal, 50*time.Millisecond)
	_, topic := other.stats(t)
	require.Zero(t, topic.Here.Early)
}
