package main

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

// client is go-redis's with a pool of one connection, and counts its connections.
type client struct {
	*redis.Client
	dialled atomic.Int32
}

func dial(t *testing.T, s *exampletest.Server) *client {
	c := new(client)
	c.Client = redis.NewClient(&redis.Options{
		Addr:       s.Addr,
		PoolSize:   1,
		MaxRetries: -1, // a retry would hide an error
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c.dialled.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
		ReadTimeout: exampletest.Late,
	})
	t.Cleanup(func() { c.Close() })
	return c
}

func TestWhoAsksStaysAndAPoolGetsOverTheEnd(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	c := dial(t, s)
	require.NoError(t, c.Set(t.Context(), "hello", "world", 0).Err())
	exampletest.Talk(t, func() error {
		value, err := c.Get(t.Context(), "hello").Result()
		require.Equal(t, "world", value)
		return err
	})
	require.EqualValues(t, 1, c.dialled.Load())
	s.Logs(t, "reason=idle")
	require.NoError(t, c.Ping(t.Context()).Err())
	require.EqualValues(t, 2, c.dialled.Load())
}

func TestWhoIsSilentGoesAndBytesOfACommandAreNoLife(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	for _, name := range []string{"silent", "trickle"} {
		t.Run(name, func(t *testing.T) {
			last := time.Now()
			c, err := net.Dial("tcp", s.Addr)
			require.NoError(t, err)
			defer c.Close()
			if name == "trickle" {
				exampletest.Trickle(t, c, "*1\r\n$100000\r\n")
			}
			exampletest.Gone(t, last, exampletest.EndOrReset(c))
		})
	}
}

func TestACommandMayTakeLongerThanTheTimeout(t *testing.T) {
	t.Parallel()
	c := dial(t, exampletest.Serve(t, serve))
	d := 3 * exampletest.Timeout
	began := time.Now()
	require.Equal(t, "OK", c.Do(t.Context(), "debug", "sleep", d.Seconds()).Val())
	require.GreaterOrEqual(t, time.Since(began), d)
	require.NoError(t, c.Ping(t.Context()).Err())
	require.EqualValues(t, 1, c.dialled.Load())
}

func TestWhoSubscribesMayBeSilent(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	c := dial(t, s)
	news := c.Subscribe(t.Context(), "news") // Receive sends no pings
	defer news.Close()
	_, err := news.Receive(t.Context())
	require.NoError(t, err)
	time.Sleep(3 * exampletest.Timeout)
	dialled := c.dialled.Load()

	other := dial(t, s)
	n, err := other.Publish(t.Context(), "news", "nothing has happened").Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	message, err := news.ReceiveMessage(t.Context())
	require.NoError(t, err)
	require.Equal(t, "nothing has happened", message.Payload)
	require.Equal(t, dialled, c.dialled.Load())
}

func TestNonsenseIsRefused(t *testing.T) {
	t.Parallel()
	c := dial(t, exampletest.Serve(t, serve))
	for _, command := range [][]any{{"get"}, {"set", "x"}, {"nonsense"}, {"debug", "sleep", "NaN"}, {"debug", "sleep", -1}, {"subscribe"}} {
		require.ErrorContains(t, c.Do(t.Context(), command...).Err(), "ERR ", "%v", command)
	}
	require.ErrorIs(t, c.Get(t.Context(), "nothing").Err(), redis.Nil)
	require.Equal(t, "OK", c.Do(t.Context(), "quit").Val())
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	exampletest.Interrupt(t, serve)
}
