package fleet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/proctest"
)

const (
	childURL      = "HEARTWHEEL_FLEET_CHILD_URL"
	childPrefix   = "HEARTWHEEL_FLEET_CHILD_PREFIX"
	childSessions = "HEARTWHEEL_FLEET_CHILD_SESSIONS"
	childBeats    = "HEARTWHEEL_FLEET_CHILD_BEATS" // nodes have leases
	childLease    = "HEARTWHEEL_FLEET_CHILD_LEASE"
)

// Leases of tests on real servers. They end soon, but not at once on a busy machine.
const (
	quickLease     = 9 * time.Second
	quickNodeLease = 12 * time.Second
)

// quick is a fleet with such leases of sessions.
func quick(prefix, node string) Config {
	return Config{
		Prefix: prefix, Node: node, Lease: quickLease, Renew: quickLease / 5,
		Timeout: 2 * time.Second, Sweep: 100 * time.Millisecond, MaxExpire: -1,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// beating gives the nodes of a fleet leases about as short.
func beating(cfg Config) Config {
	cfg.NodeLease, cfg.Timeout = quickNodeLease, 1800*time.Millisecond
	cfg.Lease, cfg.Renew = 0, 0
	return cfg
}

// longer gives a fleet other, longer leases.
func longer(cfg Config, lease time.Duration) Config {
	cfg.Lease, cfg.Renew, cfg.Timeout = lease, lease*3/10, lease*18/100
	return cfg
}

// runChild is the process of a node to be killed or stopped. It serves until its input ends, and
// answers each line with the number of its sessions, refusals and renewals.
func runChild() {
	cfg := quick(os.Getenv(childPrefix), "child")
	if os.Getenv(childBeats) != "" {
		cfg = beating(cfg)
	}
	if lease, err := time.ParseDuration(os.Getenv(childLease)); err == nil {
		cfg = longer(cfg, lease)
	}
	cfg.Outlive = true // so that only Redis says no
	n, err := Open(context.Background(), os.Getenv(childURL), cfg)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	count, _ := strconv.Atoi(os.Getenv(childSessions))
	if _, err := registerAll(n, "child", count, 1024); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		stats := n.Stats()
		fmt.Println(stats.Sessions, stats.Refused, stats.Renewals)
	}
	os.Exit(0)
}

func childSession(i int) string { return fmt.Sprint("child-", i) }

// child is the process of runChild.
type child struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func startChild(t *testing.T, url, prefix string, sessions int, env ...string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), proctest.AtOnce, childURL+"="+url, childPrefix+"="+prefix, childSessions+"="+strconv.Itoa(sessions))
	cmd.Env = append(cmd.Env, env...)
	c := begin(t, cmd)
	require.True(t, c.out.Scan())
	require.Equal(t, "ready", c.out.Text())
	return c
}

// begin starts a child. The end of the test kills it.
func begin(t *testing.T, cmd *exec.Cmd) *child {
	t.Helper()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	log := new(logtest.Log)
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	c := &child{cmd, in, bufio.NewScanner(out)}
	t.Cleanup(func() {
		c.kill()
		log.Judge(t, cmd.Args)
	})
	return c
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// ask returns how many sessions the child has, and how many it was refused.
func (c *child) ask(t *testing.T) (sessions, refused int) {
	t.Helper()
	_, err := io.WriteString(c.in, "how many?\n")
	require.NoError(t, err)
	require.True(t, c.out.Scan())
	fields := strings.Fields(c.out.Text())
	require.Len(t, fields, 3)
	sessions, _ = strconv.Atoi(fields[0])
	refused, _ = strconv.Atoi(fields[1])
	return sessions, refused
}
