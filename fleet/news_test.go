package fleet

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

func TestANodeHearsFromTheBeginning(t *testing.T) {
	t.Parallel()
	server := testserver.SharedRedis(t)
	client := connect(t, server)
	for i := range 20 {
		r := newReal(t, server, 1, nil)
		channel := r.prefix + ":node:node-0"
		listeners, err := client.PubSubNumSub(ctx, channel).Result()
		require.NoError(t, err)
		require.EqualValues(t, 1, listeners[channel], "node %d", i)
	}
}

func TestAUserWhoMayNotHearIsRefused(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	require.NoError(t, connect(t, server).Do(ctx, "ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all").Err())
	_, err := Open(ctx, "redis://deaf:secret@"+server.Addr, quick("p", "n"))
	require.ErrorContains(t, err, `fleet: subscribing to channel "p:node:n": NOPERM`)
}

// holes are connections to a server. The server can be gone without a word.
type holes struct {
	mu    sync.Mutex
	conns []*hole
}

func (h *holes) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	dialed, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = append(h.conns, &hole{Conn: dialed})
	return h.conns[len(h.conns)-1], nil
}

// vanish makes black holes of all connections.
func (h *holes) vanish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		c.gone.Store(true)
	}
}

type hole struct {
	net.Conn
	gone atomic.Bool
}

func (h *hole) Write(b []byte) (int, error) {
	if h.gone.Load() {
		return len(b), nil
	}
	return h.Conn.Write(b)
}

func (h *hole) Read(b []byte) (int, error) {
	for {
		n, err := h.Conn.Read(b)
		if !h.gone.Load() || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
			return n, err
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // not even the end comes
		}
	}
}

func TestANodeHearsAgainSoonAfterItsServerWasGoneWithoutAWord(t *testing.T) {
	t.Parallel()
	server := testserver.SharedRedis(t)
	var holes holes
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr, MaxRetries: -1, ContextTimeoutEnabled: true, Dialer: holes.dial})
	t.Cleanup(func() { client.Close() })
	change := func(c *Config) { c.Lease, c.Renew = 5*time.Minute, time.Minute }
	r := newRealBy(t, server, 2, change, func(cfg Config) (*Node, error) {
		if cfg.Node == "node-0" {
			return New(ctx, client, cfg)
		}
		return Open(ctx, server.URL, cfg)
	})
	s, _ := register(t, r.nodes[0], "a")
	holes.vanish()
	require.NoError(t, r.nodes[1].Kick(ctx, "a"))
	kicked := time.Now()
	eventually(t, func() bool { return s.Reason() == ReasonKicked }, "it is kicked")
	require.Less(t, time.Since(kicked), 40*time.Second, "before the next renewal")
	t.Log("heard after", time.Since(kicked))
}
