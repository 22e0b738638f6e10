package fleet

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// client is a client of a gateway. It says something a while after each answer.
type client struct {
	id     string
	epoch  int64
	conn   net.Conn
	lines  *bufio.Reader
	served atomic.Int64  // when its session was last known to be alive, in µs by its gateway
	heard  atomic.Int64  // when it had its last answer
	closed atomic.Int64  // when its connection ended, or 0
	gone   chan struct{} // closed then
}

// dial connects to a gateway and sends the client's id.
func dial(addr, id string) (*client, error) {
	conn, err := net.DialTimeout("tcp4", addr, 30*time.Second)
	if err != nil {
		return nil, err
	}
	c := &client{id: id, conn: conn, lines: bufio.NewReaderSize(conn, 64), gone: make(chan struct{})}
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = fmt.Fprintln(conn, id)
	answer, err := c.lines.ReadString('\n')
	if err == nil {
		if c.epoch, err = strconv.ParseInt(strings.TrimSpace(answer), 10, 64); err != nil {
			err = errors.New(answer)
		}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return c, nil
}

// talk goes on until the connection ends.
func (c *client) talk(every time.Duration) {
	defer close(c.gone)
	for {
		_ = c.conn.SetReadDeadline(time.Now().Add(every))
		line, err := c.lines.ReadString('\n')
		switch {
		case err == nil:
			c.heard.Store(time.Now().UnixMicro())
			if at, alive, _ := strings.Cut(strings.TrimSpace(line), " "); alive == "true" {
				served, _ := strconv.ParseInt(at, 10, 64)
				c.served.Store(served)
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			_, _ = fmt.Fprintln(c.conn, "here")
		default:
			c.closed.Store(time.Now().UnixMicro())
			c.conn.Close()
			return
		}
	}
}

// Talking costs much processor time. Clients talk often if a test looks at each answer, and seldom if it looks at the
// last one only.
const often, seldom = 200 * time.Millisecond, time.Second

// join connects clients to gateways in turn, and has them talk until the end of the test.
func join(t *testing.T, every time.Duration, name string, count int, addrs ...string) []*client {
	t.Helper()
	ids := make([]string, count)
	for i := range ids {
		ids[i] = fmt.Sprint(name, "-", i)
	}
	return joinEach(t, every, ids, addrs...)
}

// idsOf are the ids of clients that come again.
func idsOf(clients []*client) (ids []string) {
	for _, c := range clients {
		ids = append(ids, c.id)
	}
	return ids
}

// joinAs connects as a client that comes again does.
func joinAs(t *testing.T, id, addr string) *client {
	t.Helper()
	return joinAllAs(t, []string{id}, addr)[0]
}

// joinAllAs is join for clients that come again.
func joinAllAs(t *testing.T, ids []string, addrs ...string) []*client {
	t.Helper()
	return joinEach(t, seldom, ids, addrs...)
}

// joinEach connects all at the same time, each again and again until the gateway takes it. A busy machine may take
// longer than Config.Timeout.
func joinEach(t *testing.T, every time.Duration, ids []string, addrs ...string) []*client {
	t.Helper()
	clients := make([]*client, len(ids))
	var joining errgroup.Group
	for i, id := range ids {
		joining.Go(func() error {
			for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
				c, err := dial(addrs[i%len(addrs)], id)
				if err == nil {
					clients[i] = talking(t, c, every)
				}
				if err == nil || time.Since(began) > 2*time.Minute {
					return err
				}
			}
		})
	}
	require.NoError(t, joining.Wait())
	return clients
}

// talking has a client talk until the end of the test.
func talking(t *testing.T, c *client, every time.Duration) *client {
	go c.talk(every)
	t.Cleanup(func() {
		c.conn.Close()
		<-c.gone
	})
	return c
}

// allTalk waits until each client has had an answer since, with its session alive.
func allTalk(t *testing.T, clients []*client) {
	t.Helper()
	since := time.Now().UnixMicro()
	eventually(t, func() bool {
		return !slices.ContainsFunc(clients, func(c *client) bool { return c.served.Load() < since })
	}, "all have their sessions")
}
