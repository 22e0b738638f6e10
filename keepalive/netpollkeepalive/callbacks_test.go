//go:build !windows

package netpollkeepalive

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/cloudwego/netpoll"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

const eternal = time.Minute

// end is one call of OnClose.
type end struct {
	conn   any
	reason keepalive.Reason
}

func newKeeper(t testing.TB, cfg keepalive.Config) (*keepalive.Keeper, <-chan end) {
	ends := make(chan end, 100)
	cfg.OnClose = func(conn any, reason keepalive.Reason) { ends <- end{conn, reason} }
	k, err := keepalive.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	return k, ends
}

func dial(t testing.TB, addr net.Addr) net.Conn {
	c, err := net.Dial(addr.Network(), addr.String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(eternal)))
	return c
}

// receive returns the next value.
func receive[T any](t testing.TB, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(eternal):
		t.Fatal("it does not come")
	}
	return value
}

// echo answers all that there is.
func echo(_ context.Context, c netpoll.Connection) error {
	p, err := c.Reader().Next(c.Reader().Len())
	if err == nil {
		_, err = c.Write(p)
	}
	return err
}

// Every callback gets the same connection, guarded, whatever context OnConnect returns.
func TestCallbacksGetTheGuardedConnection(t *testing.T) {
	t.Parallel()
	k, ends := newKeeper(t, keepalive.Config{Timeout: eternal})
	got := make(chan netpoll.Connection, 10)
	addr := serve(t, k, "tcp", Handler{
		OnPrepare: func(c netpoll.Connection) context.Context {
			got <- c
			_ = c.AddCloseCallback(func(c netpoll.Connection) error { got <- c; return nil })
			return nil
		},
		OnConnect: func(_ context.Context, c netpoll.Connection) context.Context {
			got <- c
			return t.Context()
		},
		OnRequest: func(ctx context.Context, c netpoll.Connection) error {
			got <- c
			return echo(ctx, c)
		},
		OnDisconnect: func(_ context.Context, c netpoll.Connection) { got <- c },
	})
	client := dial(t, addr)
	_, err := client.Write([]byte("hello"))
	require.NoError(t, err)
	_, err = io.ReadFull(client, make([]byte, 5))
	require.NoError(t, err)
	require.NoError(t, client.Close())
	first := receive(t, got)
	require.NotNil(t, keepalive.Of(first))
	for range 4 {
		require.Same(t, first, receive(t, got))
	}
	require.Equal(t, end{first, keepalive.ReasonPeer}, receive(t, ends))
}

// netpoll passes a nil context on. There is always one here, with the connection.
func TestOnConnectMayReturnNoContext(t *testing.T) {
	t.Parallel()
	k, ends := newKeeper(t, keepalive.Config{})
	addr := serve(t, k, "tcp", Handler{
		OnConnect: func(context.Context, netpoll.Connection) context.Context { return nil },
		OnRequest: echo,
	})
	client := dial(t, addr)
	_, err := client.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(client, make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, client.Close())
	require.Equal(t, keepalive.ReasonPeer, receive(t, ends).reason)
}

func TestSetOnRequestGetsTheGuardedConnection(t *testing.T) {
	t.Parallel()
	k, _ := newKeeper(t, keepalive.Config{Timeout: eternal})
	touched := make(chan bool, 1)
	addr := serve(t, k, "tcp", Handler{
		OnPrepare: func(c netpoll.Connection) context.Context {
			_ = c.SetOnRequest(func(ctx context.Context, c netpoll.Connection) error {
				touched <- keepalive.Touch(c)
				return echo(ctx, c)
			})
			return nil
		},
		OnRequest: echo,
	})
	_, err := dial(t, addr).Write([]byte("hello"))
	require.NoError(t, err)
	require.True(t, receive(t, touched))
}

// netpoll does not know the connection yet when it is to be closed.
func TestEndBeforeTheBeginning(t *testing.T) {
	t.Parallel()
	k, ends := newKeeper(t, keepalive.Config{Timeout: eternal})
	addr := serve(t, k, "tcp", Handler{
		OnPrepare: func(c netpoll.Connection) context.Context {
			require.True(t, keepalive.Of(c).Close(keepalive.ReasonTooMany))
			return nil
		},
		OnRequest: echo,
	})
	for range 20 {
		got, _ := io.ReadAll(dial(t, addr))
		require.Empty(t, got)
		require.Equal(t, keepalive.ReasonTooMany, receive(t, ends).reason)
	}
}

func TestShutdownIsLocal(t *testing.T) {
	t.Parallel()
	k, ends := newKeeper(t, keepalive.Config{Timeout: eternal})
	loop, err := NewEventLoop(k, Handler{OnRequest: echo})
	require.NoError(t, err)
	addr := start(t, "tcp", loop)
	client := dial(t, addr)
	_, err = client.Write([]byte("hello"))
	require.NoError(t, err)
	_, err = io.ReadFull(client, make([]byte, 5))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), eternal)
	defer cancel()
	require.NoError(t, loop.Shutdown(ctx))
	require.Equal(t, keepalive.ReasonLocal, receive(t, ends).reason)
}

func TestNewEventLoopNeedsBoth(t *testing.T) {
	t.Parallel()
	k, _ := newKeeper(t, keepalive.Config{})
	_, err := NewEventLoop(k, Handler{})
	require.ErrorContains(t, err, "OnRequest")
	for _, k := range []*keepalive.Keeper{nil, new(keepalive.Keeper)} {
		_, err = NewEventLoop(k, Handler{OnRequest: echo})
		require.ErrorContains(t, err, "a Keeper from keepalive.New")
	}
}
