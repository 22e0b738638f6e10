//go:build interop && unix

package main

import (
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// server starts a program, and waits until it listens at addr.
func server(t *testing.T, addr, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	launch(t, cmd, addr)
	return cmd
}

func launch(t *testing.T, cmd *exec.Cmd, addr string) {
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { // so that nothing of it is left, even if it is stopped
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, eternal, 20*time.Millisecond)
}

// free returns an address without a listener. Its port is outside the kernel's range, so
// nobody else gets it while a server is away.
func free(t *testing.T) (addr, port string) {
	for {
		port = strconv.Itoa(22000 + rand.IntN(10000))
		addr = net.JoinHostPort("127.0.0.1", port)
		if ln, err := net.Listen("tcp", addr); err == nil {
			require.NoError(t, ln.Close())
			return addr, port
		}
	}
}

// redisServer starts a Redis of its own, and returns its URL.
func redisServer(t *testing.T) string {
	url, _ := startRedis(t)
	return url
}

func startRedis(t *testing.T) (url string, cmd *exec.Cmd) {
	addr, port := free(t)
	cmd = server(t, addr, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--dir", t.TempDir())
	return "redis://" + addr, cmd
}

// etcdServer starts an etcd of its own, and returns its address.
func etcdServer(t *testing.T) string { return newEtcd(t).addr }

// etcdProcess is an etcd to be stopped and started again.
type etcdProcess struct {
	addr string
	args []string
	cmd  *exec.Cmd
}

func newEtcd(t *testing.T) *etcdProcess {
	addr, _ := free(t)
	peer, _ := free(t)
	e := &etcdProcess{addr: addr, args: []string{
		"--data-dir", t.TempDir(), "--log-level", "error", "--unsafe-no-fsync",
		"--listen-client-urls", "http://" + addr, "--advertise-client-urls", "http://" + addr,
		"--listen-peer-urls", "http://" + peer, "--initial-advertise-peer-urls", "http://" + peer, "--initial-cluster", "default=http://" + peer,
	}}
	e.start(t)
	return e
}

// start starts etcd on its data directory.
func (e *etcdProcess) start(t *testing.T) { e.cmd = server(t, e.addr, "etcd", e.args...) }

// postgresServer starts a PostgreSQL of its own, and returns its URL. PostgreSQL won't run as
// root.
func postgresServer(t *testing.T) string {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	require.NoError(t, err)
	require.NotEmpty(t, found, "install the package postgresql")
	bin := found[len(found)-1]
	dir, err := os.MkdirTemp("", "timeoutd-postgres") // everybody may enter its parents
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	var as *syscall.SysProcAttr
	if os.Geteuid() == 0 {
		who, err := user.Lookup("postgres")
		require.NoError(t, err)
		uid, _ := strconv.Atoi(who.Uid)
		gid, _ := strconv.Atoi(who.Gid)
		require.NoError(t, os.Chown(dir, uid, gid))
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	initdb := exec.Command(bin+"/initdb", "-D", dir+"/data", "-U", "postgres", "-A", "trust", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = as, dir
	out, err := initdb.CombinedOutput()
	require.NoError(t, err, "%s", out)
	addr, port := free(t)
	launch(t, &exec.Cmd{
		Path: bin + "/postgres", SysProcAttr: as, Dir: dir,
		Args: []string{"postgres", "-D", dir + "/data", "-h", "127.0.0.1", "-p", port, "-k", dir, "-F"},
	}, addr)
	url := "postgres://postgres@" + addr + "/postgres"
	require.Eventually(t, func() bool { return exec.Command(bin+"/pg_isready", "-q", "-d", url).Run() == nil }, eternal, 50*time.Millisecond)
	return url
}

func TestTwoWithRedis(t *testing.T) { testTwo(t, "REDIS_URL="+redisServer(t)) }

func TestTwoWithEtcd(t *testing.T) {
	testTwo(t, "REDIS_URL="+redisServer(t), "ETCD_ENDPOINTS="+etcdServer(t))
}

// zookeeperServer starts a ZooKeeper of its own, and returns its address.
func zookeeperServer(t *testing.T) string {
	addr, port := free(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "zoo.cfg")
	require.NoError(t, os.WriteFile(config, []byte("dataDir="+dir+"\nclientPort="+port+"\nclientPortAddress=127.0.0.1\ntickTime=200\nadmin.enableServer=false\n"), 0o600))
	server(t, addr, "java", "-Xmx128m", "-cp", "/usr/share/java/zookeeper.jar", "org.apache.zookeeper.server.ZooKeeperServerMain", config)
	return addr
}

func TestTwoWithZooKeeper(t *testing.T) {
	testTwo(t, "REDIS_URL="+redisServer(t), "ZOOKEEPER="+zookeeperServer(t))
}

func TestTwoWithPostgres(t *testing.T) { testTwo(t, "DATABASE_URL="+postgresServer(t)) }

// Two databases have a part of the tasks each. One is refused without the other, and both are
// refused in another order.
func TestTwoWithTwoDatabases(t *testing.T) {
	first := postgresServer(t)
	second := strings.TrimSuffix(first, "/postgres") + "/second"
	createdb, err := filepath.Glob("/usr/lib/postgresql/*/bin/createdb")
	require.NoError(t, err)
	out, err := exec.Command(createdb[len(createdb)-1], "--maintenance-db="+first, "second").CombinedOutput()
	require.NoError(t, err, "%s", out)
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
	testTwo(t, "DATABASE_URL="+postgresServer(t), "REDIS_URL="+redisServer(t))
}

// Two processes share a server, and each has its slots. When one is killed, the other has all
// slots.
func testTwo(t *testing.T, env ...string) {
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
