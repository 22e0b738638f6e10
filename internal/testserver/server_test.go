package testserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

// answers reports whether a server serves within a time.
func answers(s *Server, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return s.program.ready(ctx, s) == nil
}

func TestServersCanBePausedKilledAndRestarted(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...string) *Server{
		"redis": Redis, "postgres": Postgres, "etcd": Etcd, "zookeeper": ZooKeeper,
	} {
		var args []string
		if name == "postgres" {
			args = append(args, NoFsync) // it would wait for the disk with each stop
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, args...)
			require.True(t, answers(s, patience))
			addr, pid := s.Addr, s.PID()

			s.Pause(t)
			require.False(t, answers(s, 300*time.Millisecond))
			s.Continue(t)
			require.True(t, answers(s, patience))
			require.Equal(t, pid, s.PID())

			s.Kill(t)
			s.Kill(t)
			require.Zero(t, s.PID())
			_, err := net.Dial("tcp", s.Addr)
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
			s.Restart(t)
			require.True(t, answers(s, patience))
			require.Equal(t, addr, s.Addr)
			require.NotEqual(t, pid, s.PID())

			s.Pause(t)
			s.Stop(t)
			s.Stop(t)
			s.Restart(t)
			s.Restart(t)
			require.True(t, answers(s, patience))
		})
	}
}

func TestDataSurvivesAKill(t *testing.T) {
	redis := Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	_, err := redis.ask("SET", "key", "value")
	require.NoError(t, err)
	redis.Kill(t)
	redis.Restart(t)
	said, err := redis.ask("GET", "key")
	require.NoError(t, err)
	require.Equal(t, "value", said)

	ctx := t.Context()
	postgres := Postgres(t, NoFsync)
	_, err = postgres.query(ctx, "CREATE TABLE t AS SELECT 42 AS n")
	require.NoError(t, err)
	postgres.Kill(t)
	_, err = postgres.query(ctx, "SELECT n FROM t")
	require.Error(t, err)
	postgres.Restart(t)
	said, err = postgres.query(ctx, "SELECT n FROM t")
	require.NoError(t, err)
	require.Equal(t, "42\n", said)
}

// A server that hangs is no reason for a test to wait for ever.
func TestAPausedRedisDoesNotAnswer(t *testing.T) {
	redis := Redis(t)
	redis.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := redisCLI(ctx, "-u", redis.URL, "PING")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "PING")
}

func TestAPauseReachesWhatAServerHasStarted(t *testing.T) {
	s := Postgres(t, NoFsync)
	client, err := psql(t.Context(), s.URL)
	require.NoError(t, err)
	in, err := client.StdinPipe()
	require.NoError(t, err)
	out, err := client.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, client.Start())
	defer func() { in.Close(); _ = client.Wait() }()
	answers := make(chan string)
	go func() {
		defer close(answers)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			answers <- lines.Text()
		}
	}()
	ask := func(statement string) {
		_, err := io.WriteString(in, statement+";\n")
		require.NoError(t, err)
	}
	ask("SELECT 1") // a process of its own answers
	require.Equal(t, "1", <-answers)
	family := descendants(s.PID())
	require.NotEmpty(t, family)

	s.Pause(t)
	require.False(t, anyRuns(append(family, s.PID())))
	ask("SELECT 2")
	select {
	case answer := <-answers:
		require.Fail(t, "an answer while paused", answer)
	case <-time.After(200 * time.Millisecond):
	}
	s.Continue(t)
	require.True(t, anyRuns(append(family, s.PID())))
	require.Equal(t, "2", <-answers)

	s.Kill(t)
	require.False(t, anyLives(family))
}

func TestTestsShareAServer(t *testing.T) {
	require.Same(t, SharedRedis(t), SharedRedis(t))
	require.NotEqual(t, SharedRedis(t).Addr, Redis(t).Addr)

	first, second := Database(t), Database(t)
	require.NotEqual(t, first, second)
	for _, url := range []string{first, second} {
		_, err := (&Server{URL: url}).query(t.Context(), "CREATE TABLE t ()")
		require.NoError(t, err)
	}
}

func TestAReplicaTakesOver(t *testing.T) {
	c := RedisCluster(t, 3, 1)
	require.Len(t, c.Addrs(), 6)
	masters := c.Masters(t)
	require.Len(t, masters, 3)

	heir := c.Failover(t, masters[0])
	require.Contains(t, c.Masters(t), heir)
	require.NotContains(t, c.Masters(t), masters[0])

	replicas := c.Replicas(t, masters[1])
	require.Len(t, replicas, 1)
	c.SuspectSoon(t)
	masters[1].Kill(t)
	require.Same(t, replicas[0], c.AwaitTakeover(t, replicas))
	masters[1].Restart(t)
	c.Await(t)
	require.Len(t, c.Masters(t), 3)
}

func TestAServerThatEndsAtOnceSaysWhy(t *testing.T) {
	needRedis(t)
	_, err := begin(redis("--maxmemory", "much"))
	require.ErrorIs(t, err, errEnded)
	require.ErrorContains(t, err, "argument must be a memory value")
}

func TestAMissingProgramNamesItsPackage(t *testing.T) {
	_, err := find("no-such-program", "such-package", "/no/such/*/program")
	require.EqualError(t, err, "no-such-program is not on this machine: scripts/install-servers installs it (Debian's package such-package)")
}

func TestAPortIsNotGivenTwice(t *testing.T) {
	taken := make(map[int]bool)
	for range 200 {
		port, guard, err := reserve()
		require.NoError(t, err)
		defer guard.Close()
		for _, own := range []int{port, port + busOffset} {
			require.False(t, taken[own])
			taken[own] = true
		}
	}
}

const hold = "TESTSERVER_HOLDS_A_SERVER"

// TestHold is not a test. Another test runs it as a process of its own, lets it start servers,
// and kills it.
func TestHold(t *testing.T) {
	if os.Getenv(hold) == "" {
		return
	}
	paused := Redis(t)
	paused.Pause(t)
	for _, s := range []*Server{paused, Redis(t), Postgres(t)} {
		fmt.Println("pid", s.PID())
	}
	fmt.Println("all")
	time.Sleep(patience)
}

func TestServersDieWithTheTests(t *testing.T) {
	needRedis(t)
	needPostgres(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "-test.run=^TestHold$")
	dir, err := tempDir("hold")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	cmd.Env = append(os.Environ(), hold+"=1", "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var pids []int
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "all" {
		var pid int
		if _, err := fmt.Sscanf(lines.Text(), "pid %d", &pid); err == nil {
			pids = append(append(pids, pid), descendants(pid)...)
		}
	}
	require.Greater(t, len(pids), 3)
	require.True(t, anyLives(pids))

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	eventually(t, func() error {
		if anyLives(pids) {
			return errors.New("servers live on")
		}
		return nil
	})
	data, err := filepath.Glob(filepath.Join(dir, "testserver-postgres-*"))
	require.NoError(t, err)
	require.Len(t, data, 1)
	removeSharedMemory(&Server{Dir: data[0]})
}

func TestServersLeaveNothingBehind(t *testing.T) {
	testmain.NeedProgram(t, "ipcs", "scripts/install-packages util-linux")
	segments := func() (ids []string) {
		said, err := exec.Command("ipcs", "-m").Output()
		require.NoError(t, err)
		for line := range strings.Lines(string(said)) {
			if fields := strings.Fields(line); len(fields) > 1 { // a key and an id, then sizes and counts
				ids = append(ids, fields[1])
			}
		}
		return ids
	}
	var dirs []string
	var segment string
	t.Run("servers", func(t *testing.T) {
		killed := Postgres(t, NoFsync)
		for _, s := range []*Server{Redis(t), Postgres(t, NoFsync), killed} {
			dirs = append(dirs, s.Dir)
		}
		said, err := os.ReadFile(filepath.Join(killed.Dir, "data", "postmaster.pid"))
		require.NoError(t, err)
		segment = strings.Fields(strings.Split(string(said), "\n")[6])[1]
		killed.Kill(t)
		require.Contains(t, segments(), segment)
	})
	for _, dir := range dirs {
		require.NoDirExists(t, dir)
	}
	require.NotContains(t, segments(), segment)
}
