//go:build !windows

package netpollkeepalive

import (
	"context"
	"net"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/cloudwego/netpoll"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// An impl is a way to end silent connections of netpoll: listen starts a server that answers each
// byte.
type impl struct {
	name   string
	listen func(b *testing.B) net.Addr
}

const benchTimeout = time.Hour

// impls are the ways to compare. With a read timeout, a connection keeps its goroutine between two
// heartbeats: only a pending read has a deadline.
var impls = []impl{
	{"heartwheel", func(b *testing.B) net.Addr { return listenGuarded(b, keepalive.ActivityRead) }},
	{"heartwheel-kernel", func(b *testing.B) net.Addr { return listenGuarded(b, keepalive.ActivityKernel) }},
	{"none", func(b *testing.B) net.Addr { return listen(b, answer) }},
	{"read-timeout", func(b *testing.B) net.Addr {
		return listen(b, func(ctx context.Context, c netpoll.Connection) (err error) {
			for err == nil {
				err = answer(ctx, c)
			}
			return c.Close()
		}, netpoll.WithReadTimeout(benchTimeout))
	}},
	{"time.Timer", listenTimers},
}

func listenGuarded(b *testing.B, activity keepalive.Activity) net.Addr {
	cfg := keepalive.Config{Timeout: benchTimeout, Activity: activity}
	if err := cfg.Validate(); err != nil {
		b.Skip(err)
	}
	k, err := keepalive.New(cfg)
	require.NoError(b, err)
	b.Cleanup(func() { k.Close() })
	return serve(b, k, "tcp", Handler{OnRequest: answer})
}

func listen(b *testing.B, onRequest netpoll.OnRequest, options ...netpoll.Option) net.Addr {
	loop, err := netpoll.NewEventLoop(onRequest, options...)
	require.NoError(b, err)
	return start(b, "tcp", loop)
}

type timerKey struct{}

// listenTimers has a timer for each connection, in its context.
func listenTimers(b *testing.B) net.Addr {
	return listen(
		b,
		func(ctx context.Context, c netpoll.Connection) error {
			ctx.Value(timerKey{}).(*time.Timer).Reset(benchTimeout)
			return answer(ctx, c)
		},
		netpoll.WithOnPrepare(func(c netpoll.Connection) context.Context {
			timer := time.AfterFunc(benchTimeout, func() { _ = c.Close() })
			_ = c.AddCloseCallback(func(netpoll.Connection) error { timer.Stop(); return nil })
			return context.WithValue(context.Background(), timerKey{}, timer)
		}),
	)
}

func answer(_ context.Context, c netpoll.Connection) error {
	b, err := c.Reader().ReadByte()
	if err != nil {
		return err
	}
	if err := c.Reader().Release(); err != nil {
		return err
	}
	if err := c.Writer().WriteByte(b); err != nil {
		return err
	}
	return c.Writer().Flush()
}

// BenchmarkHeartbeat is a byte and its answer over loopback, client and kernel included.
func BenchmarkHeartbeat(b *testing.B) {
	for _, impl := range impls {
		b.Run("impl="+impl.name, func(b *testing.B) {
			client := dial(b, impl.listen(b))
			require.NoError(b, client.SetDeadline(time.Time{}))
			b.ReportAllocs()
			for b.Loop() {
				beat(b, client)
			}
		})
	}
}

// BenchmarkOnRequest is the way of a heartbeat without sockets: what netpoll's goroutine does around
// an OnRequest that does nothing.
func BenchmarkOnRequest(b *testing.B) {
	for activity := keepalive.ActivityRead; activity <= keepalive.ActivityKernel; activity++ {
		b.Run("activity="+activity.String(), func(b *testing.B) {
			cfg := keepalive.Config{Timeout: benchTimeout, Activity: activity}
			if err := cfg.Validate(); err != nil {
				b.Skip(err)
			}
			k, err := keepalive.New(cfg)
			require.NoError(b, err)
			defer k.Close()
			conns := make(chan *conn, 1)
			onRequest := func(context.Context, netpoll.Connection) error { return nil }
			addr := serve(b, k, "tcp", Handler{
				OnConnect: func(ctx context.Context, c netpoll.Connection) context.Context {
					conns <- c.(*conn)
					return ctx
				},
				OnRequest: onRequest,
			})
			dial(b, addr)
			c := receive(b, conns)
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				c.left = -1 // as if bytes had come
				_ = c.request(ctx, onRequest)
			}
		})
	}
}

// BenchmarkMemory is the memory of a connection after its first heartbeat, with its peer's side in
// the same process: only the differences between the rows count. It is taken once.
func BenchmarkMemory(b *testing.B) {
	const conns = 4000
	for _, impl := range impls {
		perConn := 0.0
		b.Run("impl="+impl.name+"/conns="+strconv.Itoa(conns), func(b *testing.B) {
			if perConn == 0 {
				perConn = memory(b, impl.listen(b), conns)
			}
			b.ReportMetric(perConn, "B/conn")
			b.ReportMetric(0, "ns/op") // it says nothing
		})
	}
}

func memory(b *testing.B, addr net.Addr, conns int) (perConn float64) {
	clients := make([]net.Conn, conns)
	before := inUse()
	for i := range clients {
		clients[i] = dial(b, addr)
		require.NoError(b, clients[i].SetDeadline(time.Time{}))
		beat(b, clients[i])
	}
	perConn = float64(inUse()-before) / float64(conns)
	for _, c := range clients {
		c.Close()
	}
	return perConn
}

func beat(b *testing.B, client net.Conn) {
	var p [1]byte
	if _, err := client.Write(p[:]); err != nil {
		b.Fatal(err)
	}
	if _, err := client.Read(p[:]); err != nil {
		b.Fatal(err)
	}
}

// inUse returns the bytes of the heap and of the stacks.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
