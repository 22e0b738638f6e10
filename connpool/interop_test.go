//go:build interop

package connpool

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/redisserver"
)

// redis starts a server and returns its address.
func redis(t *testing.T) string {
	s, err := redisserver.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s.Addr
}

// command sends a command in Redis' inline form, and returns the line of the answer.
func command(c net.Conn, line string) (string, error) {
	_ = c.SetDeadline(time.Now().Add(eternal))
	if _, err := fmt.Fprintf(c, "%s\r\n", line); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(answer), err
}

func newRedisPool(t *testing.T, addr string, cfg Config[net.Conn]) *Pool[net.Conn] {
	cfg.Dial = func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	p, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func ask(p *Pool[net.Conn], line string) (string, error) {
	l, err := p.Get(bg)
	if err != nil {
		return "", err
	}
	defer l.Put()
	answer, err := command(l.Conn, line)
	if err != nil {
		l.Drop()
	}
	return answer, err
}

// Redis closes idle clients after one second; no request notices.
func TestRedisClosesIdleConnections(t *testing.T) {
	addr := redis(t)
	answer, err := ask(newRedisPool(t, addr, Config[net.Conn]{}), "CONFIG SET timeout 1")
	require.NoError(t, err)
	require.Equal(t, "+OK", answer)
	ping := func(_ context.Context, c net.Conn) error {
		answer, err := command(c, "PING")
		if err == nil && answer != "+PONG" {
			err = fmt.Errorf("%q", answer)
		}
		return err
	}
	for name, cfg := range map[string]Config[net.Conn]{
		"alive":       {Check: Alive},
		"ping":        {Check: ping, CheckAfter: 500 * ms},
		"alive floor": {Check: Alive, MinIdle: 3, MaxIdleTime: 500 * ms},
		"in time":     {MaxIdleTime: 700 * ms}, // without a check
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRedisPool(t, addr, cfg)
			for range 3 {
				var users sync.WaitGroup
				for range 8 {
					users.Go(func() {
						for range 100 {
							if answer, err := ask(p, "PING"); err != nil || answer != "+PONG" {
								t.Errorf("%q, %v", answer, err)
							}
						}
					})
				}
				users.Wait()
				time.Sleep(2500 * ms)
			}
			t.Logf("%+v", p.Stats())
		})
	}
}

// An administrator kills all clients again and again. A request can be on its way at that
// moment, but after a pause none fails.
func TestRedisKillsClients(t *testing.T) {
	addr := redis(t)
	p := newRedisPool(t, addr, Config[net.Conn]{Check: Alive, MaxOpen: 8})
	admin := newRedisPool(t, addr, Config[net.Conn]{Check: Alive})
	for range 10 {
		var users sync.WaitGroup
		var failed atomic.Int32
		for range 16 {
			users.Go(func() {
				for range 50 {
					if _, err := ask(p, "INCR n"); err != nil {
						failed.Add(1)
					}
				}
			})
		}
		users.Wait()
		require.Zero(t, failed.Load())
		var all []Lease[net.Conn]
		for range 8 { // each is known to the pool, and to Redis
			l, err := p.Get(bg)
			require.NoError(t, err)
			_, err = command(l.Conn, "PING")
			require.NoError(t, err)
			all = append(all, l)
		}
		for _, l := range all {
			require.NoError(t, l.Put())
		}
		answer, err := ask(admin, "CLIENT KILL TYPE normal SKIPME yes")
		require.NoError(t, err)
		require.Equal(t, ":8", answer)
	}
	answer, err := ask(p, "GET n") // the first line of two
	require.NoError(t, err)
	require.Equal(t, "$4", answer)
	require.NotZero(t, p.Stats().Closed[ReasonCheck])
	t.Logf("%+v", p.Stats())
}
