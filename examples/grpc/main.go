// Command grpc serves gRPC's own health service on guarded connections.
//
// gRPC has pings, idle times and ages itself: keepalive.ServerParameters, which are
// right for it and say GOAWAY. Use those, and nothing of this, unless you need what they
// don't have: limits, in all and of one address, with eviction of the idlest; shorter
// timeouts while memory or descriptors run out; a timeout for clients that connect and
// say nothing at all; and the same figures, reasons and drain as for your other servers.
//
// Then calls must be held, since one that takes long is silent.
package main

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	grpckeepalive "google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/pool"
)

func main() { example.Main("127.0.0.1:8083", serve) }

func serve(ctx context.Context, args example.Args) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout: args.Timeout,
		Room: keepalive.Room{
			MaxConns:  100_000,
			Full:      pool.EvictIdlest,
			MaxPerKey: 1000,
			Pressure:  keepalive.Pressure{Timeout: args.Timeout / 4}, // while descriptors run out
		},
		OnClose: func(conn any, reason keepalive.Reason) { // gRPC keeps it to itself
			args.Closed(conn.(net.Conn).RemoteAddr(), reason)
		},
		Logger: args.Log,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	srv := grpc.NewServer(
		grpc.Creds(guardedCreds{insecure.NewCredentials()}), // or credentials.NewTLS, in the same way
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			defer hold(ctx)()
			return next(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			defer hold(stream.Context())()
			return next(srv, stream)
		}),
		// What is held must end, too: gRPC's pings find out where a client has vanished.
		grpc.KeepaliveParams(grpckeepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
	)
	status := health.NewServer()
	grpc_health_v1.RegisterHealthServer(srv, status)

	ln, err := net.Listen("tcp", args.Addr)
	if err != nil {
		return err
	}
	args.Listening(ln.Addr())
	context.AfterFunc(ctx, func() {
		status.Shutdown() // ends nothing, but tells those who watch
		stop(srv, k)
	})
	return srv.Serve(k.Listener(ln)) // waits for stop
}

// stop lets gRPC say GOAWAY, which Drain can't, and wait for calls, but not for ever.
func stop(srv *grpc.Server, k *keepalive.Keeper) {
	patience := time.AfterFunc(5*time.Second, func() { _ = k.Drain(context.Background(), 0) })
	defer patience.Stop()
	srv.GracefulStop()
}

// hold says that the connection of a call is not silent until the call has ended.
func hold(ctx context.Context) (release func()) {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(guardedInfo); ok {
			return keepalive.Of(info.conn).Hold()
		}
	}
	return func() {}
}

// guardedCreds lets a call find its connection: gRPC shows it to nobody but to those who
// do the handshake.
type guardedCreds struct {
	credentials.TransportCredentials
}

// guardedInfo is what they say about it, and the connection.
type guardedInfo struct {
	credentials.AuthInfo
	conn net.Conn
}

func (c guardedCreds) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	over, info, err := c.TransportCredentials.ServerHandshake(conn)
	return over, guardedInfo{AuthInfo: info, conn: conn}, err
}

func (c guardedCreds) Clone() credentials.TransportCredentials {
	return guardedCreds{c.TransportCredentials.Clone()}
}
