// Command grpc serves gRPC's own health service on guarded connections.
//
// gRPC has pings, idle times and ages itself: keepalive.ServerParameters. They are right for
// it and say GOAWAY. Use them, and nothing of this, unless you need more. A Keeper adds
// limits, in all and for one address, with eviction of the idlest. Its timeouts are shorter
// while memory or descriptors run out, and a silent new client has one, too. Its figures,
// reasons and drain are the same as for your other servers.
//
// With a Keeper, calls must be held, since a long call is silent.
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
		// Held connections must end, too: gRPC's pings find vanished clients.
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
		status.Shutdown() // ends nothing, but tells the watchers
		stop(srv, k)
	})
	return srv.Serve(k.Listener(ln)) // waits for stop
}

// stop lets gRPC say GOAWAY and wait for calls, but not for ever. Drain can't say GOAWAY.
func stop(srv *grpc.Server, k *keepalive.Keeper) {
	patience := time.AfterFunc(5*time.Second, func() { _ = k.Drain(context.Background(), 0) })
	defer patience.Stop()
	srv.GracefulStop()
}

// hold holds the connection of a call until release: it is not silent meanwhile.
func hold(ctx context.Context) (release func()) {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(guardedInfo); ok {
			return keepalive.Of(info.conn).Hold()
		}
	}
	return func() {}
}

// guardedCreds lets a call find its connection: gRPC shows it only to the handshake.
type guardedCreds struct {
	credentials.TransportCredentials
}

// guardedInfo is the handshake's info, and the connection.
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
