package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/fleet"
	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/redisserver"
)

const late = exampletest.Late

func TestMain(m *testing.M) {
	QuietRedis() // servers are killed here
	// The client's pool looks every second whether a server is there again, also once after it
	// has been closed.
	exampletest.Main(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

var prefixes atomic.Int64

// nodes is a Redis of a test's own, and gateways on it.
type nodes struct {
	redis  *redisserver.Server
	prefix string
}

func newNodes(t *testing.T) *nodes {
	r, err := redisserver.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(r.Stop)
	return &nodes{redis: r, prefix: fmt.Sprint("test-", prefixes.Add(1))}
}

// running is a gateway in this process.
type running struct {
	addr        string
	events, log *logtest.Log
	end         context.CancelFunc
	exit        chan int
}

func (n *nodes) start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	g := &running{events: new(logtest.Log), log: new(logtest.Log), end: end, exit: make(chan int, 1)}
	args = append([]string{
		"-addr", "127.0.0.1:0", "-redis", n.redis.URL, "-prefix", n.prefix, "-max-conns", "1000",
		"-lease", "9s", "-renew", "1800ms", "-redis-timeout", "2s", "-max-expire", "-1", "-log-format", "json",
	}, args...)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.exit <- Main(ctx, args, g.events, g.log)
	}()
	t.Cleanup(func() {
		end()
		select {
		case <-ended:
		case <-time.After(late):
			t.Error("the gateway does not end")
		}
		if t.Failed() {
			t.Logf("%s\n%s", g.log, g.events)
		}
	})
	g.addr = g.log.Await(t, `"server: listening","addr":"([^"]+)"`)
	return g
}

// stop ends a gateway, and returns its exit code.
func (g *running) stop(t *testing.T) int {
	t.Helper()
	g.end()
	select {
	case code := <-g.exit:
		return code
	case <-time.After(late):
		require.FailNow(t, "the gateway does not end")
		return 0
	}
}

// said returns the events of one name.
func (g *running) said(t *testing.T, name string) (events []Event) {
	t.Helper()
	for _, line := range g.events.Lines(`"event":"` + name + `"`) {
		var e Event
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		events = append(events, e)
	}
	return events
}

// says waits until the only event of one name is there. It may be written after what it tells of.
func (g *running) says(t *testing.T, name string, want Event) {
	t.Helper()
	require.Eventually(t, func() bool { return len(g.events.Lines(`"event":"`+name+`"`)) > 0 }, late, 5*time.Millisecond, "no %s", name)
	require.Equal(t, []Event{want}, g.said(t, name))
}

// ends waits until an offline was told by any of the gateways.
func ends(t *testing.T, session string, all ...*running) (event Event) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, g := range all {
			for _, e := range g.said(t, "offline") {
				if e.Session == session {
					event = e
					return true
				}
			}
		}
		return false
	}, late, 5*time.Millisecond, "no offline of %s", session)
	return event
}

// caller is a client of a gateway.
type caller struct {
	net.Conn
	lines *bufio.Reader
}

func (g *running) dial(t *testing.T) *caller {
	t.Helper()
	c, err := net.Dial("tcp", g.addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(late)))
	return &caller{c, bufio.NewReader(c)}
}

// ask sends a line and returns the next one.
func (c *caller) ask(t *testing.T, line string) string {
	t.Helper()
	_, err := fmt.Fprintf(c, "%s\n", line)
	require.NoError(t, err)
	return c.hear(t)
}

func (c *caller) hear(t *testing.T) string {
	t.Helper()
	line, err := c.lines.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSuffix(line, "\n")
}

// welcome says HELLO and returns the epoch.
func (c *caller) welcome(t *testing.T, session, kind string) (epoch int64) {
	t.Helper()
	answer := c.ask(t, "HELLO "+session)
	var how string
	_, err := fmt.Sscanf(answer, "WELCOME %d %s", &epoch, &how)
	require.NoError(t, err, answer)
	require.Equal(t, kind, how)
	return epoch
}

// over requires the gateway's last words and the end of the connection.
func (c *caller) over(t *testing.T, bye string) {
	t.Helper()
	require.Equal(t, bye, c.hear(t))
	_, err := c.lines.ReadByte()
	require.Error(t, err)
}

// watcher is one more node of the fleet, to look at it.
func (n *nodes) watcher(t *testing.T) *fleet.Node {
	node, err := fleet.Open(t.Context(), n.redis.URL, fleet.Config{
		Prefix: n.prefix, Node: "watcher", Lease: 9 * time.Second, Renew: 1800 * time.Millisecond,
		Timeout: 2 * time.Second, MaxExpire: -1,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Close()) })
	return node
}

// blocked is a writer. Its Write blocks as long as free is locked.
type blocked struct {
	logtest.Log
	free sync.Mutex
}

func (b *blocked) Write(p []byte) (int, error) {
	b.free.Lock()
	defer b.free.Unlock()
	return b.Log.Write(p)
}
