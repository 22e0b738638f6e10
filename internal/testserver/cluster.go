package testserver

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

// Cluster is a Redis Cluster.
type Cluster struct {
	Nodes []*Server
}

// RedisCluster starts a Redis Cluster of the given number of masters, three or more, each with
// the given number of replicas. It considers a node dead after a minute without an answer, or see SuspectSoon: a
// short stop of one node must not make the others refuse calls, and a busy machine must not have a replica take over.
// The args are for each node, see Redis.
func RedisCluster(t testing.TB, masters, replicas int, args ...string) *Cluster {
	t.Helper()
	return redisCluster(t, masters, replicas, func(p program) *Server { return start(t, p) }, args...)
}

// SharedRedisCluster returns the Redis Cluster of three masters shared by the tests of this package. The tests must
// keep their keys apart, and leave all nodes as they are.
func SharedRedisCluster(t testing.TB) *Cluster {
	t.Helper()
	needRedis(t)
	sharedCluster.once.Do(func() {
		sharedCluster.cluster = redisCluster(t, 3, 0, func(p program) *Server {
			s, err := begin(p)
			if err == nil {
				err = atEnd.add(s.end)
			}
			if err != nil {
				t.Fatal(err)
			}
			return s
		})
	})
	if sharedCluster.cluster == nil {
		t.Fatal("testserver: the shared Redis Cluster has not started for another test")
	}
	return sharedCluster.cluster
}

var sharedCluster struct {
	once    sync.Once
	cluster *Cluster
}

func redisCluster(t testing.TB, masters, replicas int, start func(program) *Server, args ...string) *Cluster {
	t.Helper()
	if masters < 3 || replicas < 0 {
		t.Fatalf("testserver: a Redis Cluster of %d masters with %d replicas, must be at least 3 and 0", masters, replicas)
	}
	args = append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
		"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
	}, args...)
	needRedis(t)
	c := &Cluster{}
	for range masters * (1 + replicas) {
		c.Nodes = append(c.Nodes, start(redis(args...)))
	}
	create := append([]string{"--cluster", "create"}, c.Addrs()...)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := redisCLI(ctx, append(create, "--cluster-replicas", strconv.Itoa(replicas), "--cluster-yes")...); err != nil {
		t.Fatalf("testserver: %v", err)
	}
	c.Await(t)
	c.suspectAfter(t, time.Minute) // from the beginning on it would slow the start down
	return c
}

// SuspectSoon has the cluster consider a node dead after a second without an answer. It is for tests of takeovers. On a
// busy machine a replica may take over from another master, too.
func (c *Cluster) SuspectSoon(t testing.TB) {
	t.Helper()
	c.suspectAfter(t, time.Second)
}

func (c *Cluster) suspectAfter(t testing.TB, silence time.Duration) {
	t.Helper()
	for _, node := range c.Nodes {
		if _, err := node.ask("CONFIG", "SET", "cluster-node-timeout", strconv.FormatInt(silence.Milliseconds(), 10)); err != nil {
			t.Fatalf("testserver: %v", err)
		}
	}
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		addrs[i] = node.Addr
	}
	return addrs
}

// Await waits until all running nodes find the cluster well and know the same masters, replicas and
// slots, and all replicas are in step with their masters. A master ignores the takeover by an unknown
// replica.
func (c *Cluster) Await(t testing.TB) {
	t.Helper()
	eventually(t, func() error {
		known := ""
		for _, node := range c.Nodes {
			if node.PID() == 0 {
				continue
			}
			if err := well(node, len(c.Nodes)); err != nil {
				return err
			}
			roles, err := roles(node)
			switch {
			case err != nil:
				return err
			case known == "":
				known = roles
			case known != roles:
				return fmt.Errorf("%s knows these roles:\n%s\nand not these:\n%s", node.Addr, roles, known)
			}
		}
		return nil
	})
}

// roles returns the knowledge of a node about all nodes: the id of each, its master's or "-", and its slots.
func roles(node *Server) (string, error) {
	said, err := node.ask("CLUSTER", "NODES")
	var roles []string
	for line := range strings.Lines(said) {
		if fields := strings.Fields(line); len(fields) >= 8 {
			roles = append(roles, fmt.Sprint(fields[0], " ", fields[3], fields[8:]))
		}
	}
	slices.Sort(roles)
	return strings.Join(roles, "\n"), err
}

// well returns an error if a node finds its cluster unwell.
func well(node *Server, nodes int) error {
	info, err := node.ask("CLUSTER", "INFO")
	switch {
	case err != nil:
		return err
	case !strings.Contains(info, "cluster_state:ok"):
		return fmt.Errorf("%s finds that the cluster is not well:\n%s", node.Addr, info)
	case !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", nodes)):
		return fmt.Errorf("%s does not know all of %d nodes:\n%s", node.Addr, nodes, info)
	}
	info, err = node.ask("INFO", "replication")
	if err == nil && strings.Contains(info, "role:slave") && !strings.Contains(info, "master_link_status:up") {
		err = fmt.Errorf("%s is not in step with its master:\n%s", node.Addr, info)
	}
	return err
}

// Masters returns the running masters.
func (c *Cluster) Masters(t testing.TB) []*Server {
	t.Helper()
	return c.running(t, func(role []string) bool { return role[0] == "master" })
}

// Replicas returns the running replicas of a master.
func (c *Cluster) Replicas(t testing.TB, master *Server) []*Server {
	t.Helper()
	return c.running(t, func(role []string) bool { return role[0] == "slave" && role[2] == strconv.Itoa(master.port) })
}

// running returns the running servers of a role: slave, host, port, state and offset for a replica.
func (c *Cluster) running(t testing.TB, is func(role []string) bool) (found []*Server) {
	t.Helper()
	for _, node := range c.Nodes {
		if node.PID() == 0 {
			continue
		}
		role, err := node.ask("ROLE")
		if err != nil {
			t.Fatalf("testserver: %v", err)
		}
		if is(strings.Fields(role)) {
			found = append(found, node)
		}
	}
	return found
}

// Failover makes a replica take over from its master in good order, without a lost write, and
// returns the replica. For a failover in bad order, SuspectSoon, Kill a master, and wait with AwaitTakeover.
func (c *Cluster) Failover(t testing.TB, master *Server) *Server {
	t.Helper()
	replicas := c.Replicas(t, master)
	if len(replicas) == 0 {
		t.Fatalf("testserver: no replica of %s is there to take over", master.Addr)
	}
	if _, err := replicas[0].ask("CLUSTER", "FAILOVER"); err != nil {
		t.Fatalf("testserver: %v", err)
	}
	c.AwaitTakeover(t, replicas[:1])
	return replicas[0]
}

// AwaitTakeover waits until one of the replicas is a master and all running nodes know it. It
// returns the new master.
func (c *Cluster) AwaitTakeover(t testing.TB, replicas []*Server) *Server {
	t.Helper()
	var taken *Server
	eventually(t, func() error {
		for _, replica := range replicas {
			role, err := replica.ask("ROLE")
			if err != nil {
				return err
			}
			if strings.HasPrefix(role, "master") {
				taken = replica
				return nil
			}
		}
		return errors.New("no replica has taken over")
	})
	c.Await(t)
	return taken
}

// ask returns the answer of a Redis server, each string of it in a line, as redis-cli prints it. It starts no redis-cli:
// a state is asked for until it is there, of all nodes, and a program each time would be most of the work.
func (s *Server) ask(command ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.Addr, patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(conn, "%s\r\n", strings.Join(command, " ")); err != nil {
		return "", err
	}
	said, err := readReply(bufio.NewReader(conn))
	if err != nil {
		return "", fmt.Errorf("%s to %s: %w", strings.Join(command, " "), s.Addr, err)
	}
	return said, nil
}

// readReply reads a reply of RESP 2.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, line := line[0], strings.TrimSpace(line[1:])
	n, _ := strconv.Atoi(line)
	switch kind {
	case '-':
		return "", errors.New(line)
	case '$':
		text := make([]byte, max(0, n+len("\r\n")))
		_, err := io.ReadFull(r, text)
		return strings.TrimSuffix(string(text), "\r\n"), err
	case '*':
		all := make([]string, max(0, n))
		for i := range all {
			if all[i], err = readReply(r); err != nil {
				return "", err
			}
		}
		return strings.Join(all, "\n"), nil
	}
	return line, nil
}

// needRedis ends a test if the programs of a Redis Cluster are missing.
func needRedis(t testing.TB) {
	t.Helper()
	_, server := find("redis-server", "redis-server")
	_, client := find("redis-cli", "redis-tools")
	testmain.Need(t, cmp.Or(server, client))
}

func redisCLI(ctx context.Context, args ...string) (string, error) {
	name, err := find("redis-cli", "redis-tools")
	if err != nil {
		return "", err
	}
	said, err := exec.CommandContext(ctx, name, append([]string{"-e"}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("redis-cli %s: %w\n%s", strings.Join(args, " "), cmp.Or(ctx.Err(), err), said)
	}
	return string(said), nil
}

// eventually waits until there is no error.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("testserver: not after %v: %v", patience, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
