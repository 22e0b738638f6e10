package zookeeper_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/members/internal/memberstest"
	"github.com/heartwheel-go/heartwheel/timeout/members/zookeeper"
)

func TestMain(m *testing.M) { testserver.Main(m) }

const (
	eternal = memberstest.Eternal
	long    = memberstest.Long
	short   = memberstest.Short
)

var heartbeat, names, watch = memberstest.Heartbeat, memberstest.Names, memberstest.Watch

func config(t *testing.T) zookeeper.Config {
	return zookeeper.Config{Path: "/" + memberstest.Prefix(t) + "/nodes"}
}

// open returns new Members, as in another process.
func open(t *testing.T, s *testserver.Server) *zookeeper.Members {
	t.Helper()
	return openWith(t, s, config(t))
}

func openWith(t *testing.T, s *testserver.Server, cfg zookeeper.Config) *zookeeper.Members {
	t.Helper()
	m, err := zookeeper.Open([]string{s.Addr}, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// client returns a connection of its own.
func client(t *testing.T, s *testserver.Server) *zk.Conn {
	conn, _, err := zk.Connect([]string{s.Addr}, long, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// cable is a connection to a server. A test can cut it, as if the process was killed.
type cable struct {
	mu    sync.Mutex
	conns []net.Conn
	cut   bool
}

func (c *cable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, net.ErrClosed
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

func TestMembersAreAsTheContractSays(t *testing.T) {
	t.Parallel()
	enginetest.Members(t, open(t, testserver.SharedZooKeeper(t)))
}

func TestTwoProcessesOfOneNameAreTold(t *testing.T) {
	t.Parallel()
	s := testserver.SharedZooKeeper(t)
	enginetest.Runs(t, open(t, s), open(t, s))
	memberstest.Duplicates(t, open(t, s), open(t, s))
}

// Each run of a process is a node of its own.
func TestNothingIsKeptOfRunsThatHaveLeft(t *testing.T) {
	t.Parallel()
	m := open(t, testserver.SharedZooKeeper(t))
	for _, run := range []string{"1", "2", "1"} {
		view, err := m.Heartbeat(t.Context(), engine.Node{Name: "a", Run: run}, long)
		require.NoError(t, err)
		require.Len(t, view.Nodes, 1)
		require.NoError(t, m.Leave(t.Context(), "a"))
		require.Zero(t, m.Nodes())
	}
}

func TestAKilledLeaderIsMissedAndTheNextOneLeads(t *testing.T) {
	t.Parallel()
	s := testserver.SharedZooKeeper(t)
	wire := &cable{}
	cfg := config(t)
	cfg.Dial = wire.dial
	memberstest.KilledLeader(t, openWith(t, s, cfg), open(t, s), open(t, s), func() { wire.set(true) })
}

func TestAConnectionThatIsLostCostsNothing(t *testing.T) {
	t.Parallel()
	wire := &cable{}
	cfg := config(t)
	cfg.Dial = wire.dial
	s := testserver.SharedZooKeeper(t)
	m, other := openWith(t, s, cfg), open(t, s)
	heartbeat(t, m, "a", long)
	heartbeat(t, other, "b", long)
	for range 3 {
		wire.set(false)
		require.Eventually(t, func() bool {
			view, err := m.Heartbeat(t.Context(), engine.Node{Name: "a"}, long)
			return err == nil && slices.Equal(names(view), []string{"a", "b"})
		}, eternal, 10*time.Millisecond)
	}
}

// A process stops for longer than its session lives.
func TestAZombieJoinsAsTheLast(t *testing.T) {
	t.Parallel()
	s := testserver.SharedZooKeeper(t)
	wire := &cable{}
	cfg := config(t)
	cfg.Dial = wire.dial
	zombie, heir := openWith(t, s, cfg), open(t, s)
	asleep := heartbeat(t, zombie, "zombie", short)
	require.Equal(t, "zombie", asleep.Leader())
	heartbeat(t, heir, "heir", long)
	wire.set(true)
	require.Eventually(t, func() bool {
		_, _ = zombie.Heartbeat(t.Context(), engine.Node{Name: "zombie"}, short) // so that it keeps its session
		return heartbeat(t, heir, "heir", long).Leader() == "heir"
	}, eternal, 20*time.Millisecond)

	wire.set(false)
	awake := memberstest.Awake(t, zombie, heir)
	require.Equal(t, []string{"heir", "zombie"}, names(awake))
}

// The process lives, and with it the session; the center hangs.
func TestANodeWithoutHeartbeatsIsMissed(t *testing.T) {
	t.Parallel()
	s := testserver.SharedZooKeeper(t)
	hangs, other := open(t, s), open(t, s)
	heartbeat(t, hangs, "hangs", short)
	require.Eventually(t, func() bool { return heartbeat(t, other, "other", long).Leader() == "other" }, eternal, 20*time.Millisecond)
	awake := heartbeat(t, hangs, "hangs", short)
	require.Equal(t, []string{"other", "hangs"}, names(awake))
}

// The call of its last heartbeat asks one server after the other, and joins when the center has hung for long.
func TestAHeartbeatThatNobodyWaitsForAnyMoreMakesNoMember(t *testing.T) {
	t.Parallel()
	s := testserver.SharedZooKeeper(t)
	hung, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections, and nobody answers
	require.NoError(t, err)
	defer hung.Close()
	cfg := config(t)
	var dials atomic.Int64
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) <= 4 {
			address = hung.Addr().String()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	hangs, err := zookeeper.Open(slices.Repeat([]string{s.Addr}, 9), cfg)
	require.NoError(t, err)
	defer hangs.Close()
	_, err = hangs.Heartbeat(t.Context(), engine.Node{Name: "hangs"}, short)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	other := open(t, s)
	seen := func() bool { return slices.Contains(names(heartbeat(t, other, "other", long)), "hangs") }
	for start := time.Now(); !seen() && time.Since(start) < 10*short; {
		time.Sleep(20 * time.Millisecond)
	}
	require.Eventually(t, func() bool { return !seen() }, eternal, 20*time.Millisecond)
}

func TestManyJoinAtOnce(t *testing.T) {
	t.Parallel()
	const many = 20
	s := testserver.SharedZooKeeper(t)
	var joins sync.WaitGroup
	members := make([]*zookeeper.Members, many)
	errs := make([]error, many)
	for i := range members {
		members[i] = open(t, s)
		joins.Go(func() { _, errs[i] = members[i].Heartbeat(t.Context(), engine.Node{Name: string(rune('a' + i))}, long) })
	}
	joins.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	view := heartbeat(t, members[0], "a", long)
	require.Len(t, view.Nodes, many)
	for i, m := range members {
		require.Equal(t, view, heartbeat(t, m, string(rune('a'+i)), long))
	}
}

func TestANodeWhoseZnodeSomebodyRemovesJoinsAgain(t *testing.T) {
	t.Parallel()
	s := testserver.SharedZooKeeper(t)
	m, other := open(t, s), client(t, s)
	path := config(t).Path
	before := heartbeat(t, m, "a", long)
	for _, parent := range []bool{false, true} {
		children, _, err := other.Children(path)
		require.NoError(t, err)
		for _, child := range children {
			require.NoError(t, other.Delete(path+"/"+child, -1))
		}
		if parent {
			require.NoError(t, other.Delete(path, -1))
		}
		require.Equal(t, before, heartbeat(t, m, "a", long))
	}
}

func TestWhatOthersPutBesideIsNoNode(t *testing.T) {
	t.Parallel()
	s := testserver.SharedZooKeeper(t)
	m, other := open(t, s), client(t, s)
	heartbeat(t, m, "a", long)
	for _, name := range []string{"lock", "n-x", "n-x-", "n-x-y", "n--1", "n-x-99999999999999999999"} {
		_, err := other.Create(config(t).Path+"/"+name, []byte("{"), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		if name == "n--1" { // which could be one's
			_, err = m.Heartbeat(t.Context(), engine.Node{Name: "a"}, long)
			require.ErrorContains(t, err, "n--1")
			require.NoError(t, other.Delete(config(t).Path+"/"+name, -1))
		}
		require.Equal(t, []string{"a"}, names(heartbeat(t, m, "a", long)))
	}
}

func TestWatchTellsOfEveryChange(t *testing.T) {
	t.Parallel()
	s := testserver.SharedZooKeeper(t)
	wire := &cable{}
	cfg := config(t)
	cfg.Dial = wire.dial
	before, m, after := openWith(t, s, cfg), open(t, s), open(t, s)
	changes, end := watch(m)
	heartbeat(t, before, "before", short)
	go func() { // lives until it is cut
		for t.Context().Err() == nil {
			_, _ = before.Heartbeat(t.Context(), engine.Node{Name: "before"}, short)
			time.Sleep(short / 5)
		}
	}()
	heartbeat(t, m, "m", long)
	changes.Await(t, "one at the beginning")
	for _, change := range []func(){
		func() { heartbeat(t, after, "after", long) },
		func() {
			_, err := after.Heartbeat(t.Context(), engine.Node{Name: "after", Topics: []string{"orders"}}, long)
			require.NoError(t, err)
		},
		func() { require.NoError(t, after.Leave(t.Context(), "after")) },
		func() { // the one before dies; a busy machine may just have lost it
			require.Eventually(t, func() bool { return len(heartbeat(t, m, "m", long).Nodes) == 2 }, eternal, 10*time.Millisecond)
			wire.set(true)
		},
		func() { heartbeat(t, after, "after", long) },
	} {
		changes.Drain(300 * time.Millisecond)
		change()
		changes.Await(t, "")
	}
	require.NoError(t, end())
}

// watchByCable watches a node called other, by a cable that can be cut. No change of before is left.
func watchByCable(t *testing.T) (wire *cable, other *zookeeper.Members, changes memberstest.Changes, end func() error) {
	t.Helper()
	s := testserver.SharedZooKeeper(t)
	wire = &cable{}
	cfg := config(t)
	cfg.Dial = wire.dial
	m, other := openWith(t, s, cfg), open(t, s)
	heartbeat(t, other, "other", long)
	changes, end = watch(m)
	heartbeat(t, m, "m", long)
	changes.Await(t, "one at the beginning")
	changes.Drain(300 * time.Millisecond)
	return wire, other, changes, end
}

func TestAChangeWhileTheConnectionIsLostIsTold(t *testing.T) {
	t.Parallel()
	wire, other, changes, end := watchByCable(t)
	for _, topics := range [][]string{{"orders"}, nil} {
		wire.set(true)
		_, err := other.Heartbeat(t.Context(), engine.Node{Name: "other", Topics: topics}, long)
		require.NoError(t, err)
		changes.Drain(0)
		wire.set(false)
		changes.Await(t, "once it is connected again")
	}
	require.NoError(t, end())
}

// While the servers are away, a node is told in vain.
func TestAChangeIsToldOnceTheServersAreBack(t *testing.T) {
	t.Parallel()
	wire, other, changes, end := watchByCable(t)
	for _, topics := range [][]string{{"orders"}, nil} {
		wire.set(true)
		changes.Await(t, "in vain")
		_, err := other.Heartbeat(t.Context(), engine.Node{Name: "other", Topics: topics}, long)
		require.NoError(t, err)
		changes.Drain(100 * time.Millisecond)
		wire.set(false)
		select {
		case <-changes:
		case <-time.After(20 * time.Second): // the other node leaves after a minute
			require.Fail(t, "no change is told once they are back")
		}
		changes.Drain(300 * time.Millisecond)
	}
	require.NoError(t, end())
}

// When the leader goes, one of n nodes is told at once; the others see it in the list.
func TestEachNodeWatchesTheNextSmallerOne(t *testing.T) {
	t.Parallel()
	s := testserver.SharedZooKeeper(t)
	const many = 5
	for i := range many {
		m := open(t, s)
		changes, end := watch(m)
		heartbeat(t, m, string(rune('a'+i)), long)
		changes.Await(t, "")
		defer end()
	}
	children, _, err := client(t, s).Children(config(t).Path)
	require.NoError(t, err)
	require.Len(t, children, many)
	slices.SortFunc(children, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
	require.Eventually(t, func() bool {
		watched := watchers(t, s)
		for i, child := range children {
			want := 1
			if i == many-1 {
				want = 0
			}
			if watched[config(t).Path+"/"+child] != want {
				return false
			}
		}
		return watched[config(t).Path] == many
	}, eternal, 20*time.Millisecond)
}

// watchers asks a server for the number of sessions that watch each path.
func watchers(t *testing.T, s *testserver.Server) map[string]int {
	conn, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("wchp"))
	require.NoError(t, err)
	said, err := io.ReadAll(conn)
	require.NoError(t, err)
	watched := make(map[string]int)
	path := ""
	for line := range strings.Lines(string(said)) {
		if strings.HasPrefix(line, "/") {
			path = strings.TrimSpace(line)
		} else if strings.HasPrefix(line, "\t") {
			watched[path]++
		}
	}
	return watched
}

func TestTheLastViewIsUsedWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	s := testserver.ZooKeeper(t)
	other := open(t, s)
	heartbeat(t, other, "other", long)
	center, stop := memberstest.Serve(t, open(t, s))
	defer stop()
	changes, end := watch(other)
	changes.Await(t, "one at the beginning")
	for _, name := range []string{"killed", "paused"} {
		t.Run(name, func(t *testing.T) {
			memberstest.Away(t, s, center, other, changes, memberstest.Outages[name])
		})
	}
	require.NoError(t, end())
}

// A server refuses sessions that have seen more than it has.
func TestNodesGoOnWhereTheStoreWasLost(t *testing.T) {
	t.Parallel()
	s := testserver.ZooKeeper(t)
	m, other := open(t, s), open(t, s)
	var before engine.View
	for range 5 {
		heartbeat(t, other, "other", long)
		require.NoError(t, other.Leave(t.Context(), "other"))
		before = heartbeat(t, m, "a", long)
	}
	changes, end := watch(m)
	changes.Await(t, "")
	s.Stop(t)
	require.NoError(t, os.RemoveAll(filepath.Join(s.Dir, "data")))
	s.Restart(t)
	var after engine.View
	require.Eventually(t, func() bool {
		var err error
		after, err = m.Heartbeat(t.Context(), engine.Node{Name: "a"}, long)
		return err == nil
	}, eternal, 50*time.Millisecond)
	require.Equal(t, before.Nodes, after.Nodes)
	changes.Drain(300 * time.Millisecond)
	heartbeat(t, other, "other", long)
	changes.Await(t, "it is watched again")
	require.NoError(t, end())
}

func TestZnodesAreOnlyForWhoMayUseThem(t *testing.T) {
	t.Parallel()
	s := testserver.SharedZooKeeper(t)
	wire := &cable{}
	cfg := config(t)
	cfg.Scheme, cfg.Auth, cfg.ACL, cfg.Dial = "digest", []byte("user:password"), zk.DigestACL(zk.PermAll, "user", "password"), wire.dial
	m := openWith(t, s, cfg)
	heartbeat(t, m, "a", long)
	wire.set(false) // and on the next connection
	require.Eventually(t, func() bool {
		view, err := m.Heartbeat(t.Context(), engine.Node{Name: "a", Topics: []string{"orders"}}, long)
		return err == nil && slices.Equal(view.Nodes[0].Topics, []string{"orders"})
	}, eternal, 10*time.Millisecond)
	_, err := open(t, s).Heartbeat(t.Context(), engine.Node{Name: "b"}, long)
	require.ErrorIs(t, err, zk.ErrNoAuth)
}

func TestAHeartbeatEndsWithItsContext(t *testing.T) {
	t.Parallel()
	hung, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections, and nobody answers
	require.NoError(t, err)
	defer hung.Close()
	m := open(t, &testserver.Server{Addr: hung.Addr().String()})
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := m.Heartbeat(ctx, engine.Node{Name: "a"}, long)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, m.Leave(ctx, "a"), context.DeadlineExceeded)
		cancel()
	}
	memberstest.Closed(t, m) // in the middle of a call
}

func TestAWatchEndsWithTheMembers(t *testing.T) {
	t.Parallel()
	m := open(t, testserver.SharedZooKeeper(t))
	heartbeat(t, m, "a", long)
	changes, end := watch(m)
	changes.Await(t, "")
	require.NoError(t, m.Close())
	require.ErrorIs(t, end(), engine.ErrClosed)
}

func TestBadArgumentsAreNamed(t *testing.T) {
	for _, servers := range [][]string{nil, {"a:1", " "}, {"zookeeper://a:1"}, {":1"}} {
		_, err := zookeeper.Open(servers, zookeeper.Config{})
		require.ErrorIs(t, err, engine.ErrArgument, "%q", servers)
	}
	for _, path := range []string{"a", "/", "/a/", "/a//b", "/a/../b", "/.", "/\x00", "/" + strings.Repeat("p", 1024)} {
		_, err := zookeeper.Open([]string{"a:1"}, zookeeper.Config{Path: path})
		require.ErrorIs(t, err, engine.ErrArgument, "%q", path)
	}
	m, err := zookeeper.Open([]string{"a", "[::1]:2181"}, zookeeper.Config{})
	require.NoError(t, err)
	_, err = m.Heartbeat(t.Context(), engine.Node{Name: "a"}, time.Microsecond)
	require.ErrorIs(t, err, engine.ErrArgument)
	require.NoError(t, m.Leave(t.Context(), "who never came"))
	require.NoError(t, m.Close())
}
