package main

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

// client is grpc-go's, and counts its connections.
type client struct {
	*grpc.ClientConn
	grpc_health_v1.HealthClient
	dialled atomic.Int32
}

func dial(t *testing.T, s *exampletest.Server) *client {
	c := new(client)
	conn, err := grpc.NewClient("passthrough:///"+s.Addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			c.dialled.Add(1)
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	c.ClientConn, c.HealthClient = conn, grpc_health_v1.NewHealthClient(conn)
	return c
}

func (c *client) ask(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), exampletest.Late)
	defer cancel()
	_, err := c.Check(ctx, new(grpc_health_v1.HealthCheckRequest))
	return err
}

// disconnected waits until there is no connection any more.
func (c *client) disconnected(t *testing.T) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(t.Context(), exampletest.Late)
		defer cancel()
		if !c.WaitForStateChange(ctx, connectivity.Ready) {
			return ctx.Err()
		}
		return nil
	}
}

func TestWhoCallsStaysAndWhoIsSilentGoes(t *testing.T) {
	t.Parallel()
	s := exampletest.Start(t, serve)
	c := dial(t, s)
	last := exampletest.Talk(t, func() error { return c.ask(t) })
	require.EqualValues(t, 1, c.dialled.Load())
	exampletest.Gone(t, last, c.disconnected(t))
	s.Logs(t, "it was silent")

	require.NoError(t, c.ask(t), "gRPC connects again when there is a call")
	require.EqualValues(t, 2, c.dialled.Load())
}

func TestACallMayTakeLongerThanTheTimeout(t *testing.T) {
	t.Parallel()
	s := exampletest.Start(t, serve)
	c := dial(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	watch, err := c.Watch(ctx, new(grpc_health_v1.HealthCheckRequest))
	require.NoError(t, err)
	first, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, first.GetStatus())

	more := make(chan error, 1)
	go func() {
		_, err := watch.Recv()
		more <- err
	}()
	select {
	case err := <-more:
		require.FailNow(t, "the stream has ended", "%v", err)
	case <-time.After(3 * exampletest.Timeout):
	}
	require.Equal(t, connectivity.Ready, c.GetState())
	require.EqualValues(t, 1, c.dialled.Load())

	last := time.Now()
	cancel() // the call has ended, and with it the work
	require.Equal(t, codes.Canceled, status.Code(<-more))
	exampletest.Gone(t, last, c.disconnected(t))
}

func TestWhoNeverSpeaksGoes(t *testing.T) {
	t.Parallel()
	s := exampletest.Start(t, serve)
	last := time.Now()
	c, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	defer c.Close()
	exampletest.Gone(t, last, exampletest.EOF(c))
	s.Logs(t, "it was silent")
}
