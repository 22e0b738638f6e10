// Command grpc serves gRPC's own health service on guarded connections.
//
// gRPC has timeouts itself, in keepalive.ServerParameters. They say GOAWAY before they close:
//
//   - MaxConnectionIdle: no call for so long,
//   - MaxConnectionAge and its grace,
//   - Time and Timeout: pings. A hanging program, or a vanished machine, does not answer.
//
// Use them, and nothing of this, unless you need more. A Keeper adds limits, in all and for one
// address, with eviction of the idlest. Its timeouts are shorter while memory or descriptors run
// out, and a silent new client has one, too. Its figures, reasons and drain are the same as for
// your other servers. It closes without GOAWAY. So give MaxConnectionIdle a shorter time than the
// Keeper's if you use both.
//
// With a Keeper, calls must be held, since a long call is silent.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	grpckeepalive "google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8083", "address to listen on, `host:port`; port 0 is any free one")
	timeout := flag.Duration("timeout", 30*time.Second, "how long a connection may be silent")
	flag.Parse()
	switch {
	case *timeout <= 0:
		log.Fatalf("-timeout %v: must be positive", *timeout)
	case flag.NArg() > 0:
		log.Fatalf("unexpected argument %q: there are only flags", flag.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := serve(ctx, *addr, *timeout, slog.Default()); err != nil {
		log.Fatal(err)
	}
}

// serve takes options of gRPC, such as grpc.Creds for TLS.
func serve(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger, opts ...grpc.ServerOption) error {
	conns := new(connections)
	k, err := keepalive.New(keepalive.Config{
		Timeout: timeout,
		Room: keepalive.Room{
			MaxConns:  100_000,
			Full:      keepalive.FullEvict,
			MaxPerKey: 1000,
			Pressure:  keepalive.Pressure{Timeout: timeout / 4}, // while descriptors run out
		},
		OnClose: func(conn any, reason keepalive.Reason) {
			logger.Info("closed", "remote", conn.(net.Conn).RemoteAddr(), "reason", reason.String())
		},
		Logger: logger,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	srv := grpc.NewServer(append(opts,
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			defer conns.hold(ctx)()
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			defer conns.hold(stream.Context())()
			return next(srv, stream)
		}),
		// Held connections must end, too: gRPC's pings find vanished clients.
		grpc.KeepaliveParams(grpckeepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
	)...)
	status := health.NewServer()
	grpc_health_v1.RegisterHealthServer(srv, status)

	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	logger.Info("listening", "addr", ln.Addr())
	context.AfterFunc(ctx, func() {
		status.Shutdown() // ends nothing, but tells the watchers
		stop(srv, k, conns)
	})
	err = srv.Serve(listener{k.Listener(ln), conns}) // waits for stop
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil // stop came before Serve
	}
	return err
}

// stop lets gRPC say GOAWAY and wait for calls, but not for ever. Drain can't say GOAWAY. gRPC also
// waits for clients in their handshake: those that say nothing have a second more.
func stop(srv *grpc.Server, k *keepalive.Keeper, conns *connections) {
	defer time.AfterFunc(time.Second, conns.closeSilent).Stop()
	patience := time.AfterFunc(5*time.Second, func() { _ = k.Drain(context.Background(), 0) })
	defer patience.Stop()
	srv.GracefulStop()
}

// connections finds the connection of a call. A call knows only the address of its peer. Package net
// makes one *net.TCPAddr or *net.UnixAddr for each connection, and returns that pointer each time. So
// the pointer is the key. peer.Peer stays as it is without a Keeper, and so does its AuthInfo.
type connections struct {
	byAddr sync.Map // *listed by its net.Addr
}

// hold holds the connection of a call until release: it is not silent meanwhile.
func (c *connections) hold(ctx context.Context) (release func()) {
	if p, ok := peer.FromContext(ctx); ok {
		if conn, ok := c.byAddr.Load(p.Addr); ok {
			return keepalive.Of(conn.(*listed).Conn).Hold()
		}
	}
	return func() {}
}

// closeSilent closes the connections that have never said anything.
func (c *connections) closeSilent() {
	c.byAddr.Range(func(_, conn any) bool {
		if l := conn.(*listed); !l.heard.Load() {
			keepalive.Of(l.Conn).Close(keepalive.ReasonDrain)
		}
		return true
	})
}

// listener adds the connections of a Keeper's listener.
type listener struct {
	net.Listener
	conns *connections
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &listed{Conn: conn, conns: l.conns}
	l.conns.byAddr.Store(conn.RemoteAddr(), c)
	return c, nil
}

// listed is removed by Close. gRPC closes each connection, whatever has ended it.
type listed struct {
	net.Conn
	conns *connections
	heard atomic.Bool
}

func (c *listed) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.heard.Load() {
		c.heard.Store(true)
	}
	return n, err
}

func (c *listed) Close() error {
	c.conns.byAddr.Delete(c.RemoteAddr())
	return c.Conn.Close()
}
