// Command proxy-protocol is a web server behind a proxy: HAProxy, nginx, or a load balancer of
// a cloud. The proxy names its clients by the PROXY protocol.
//
// The listener for the header is inside, k.Listener around it, and TLS, if there is TLS,
// around both. Then MaxPerKey counts the connections of a client, and not the proxy's.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// maxPerClient is small enough to be tried by hand.
const maxPerClient = 2

func main() { example.Main("127.0.0.1:8084", serve) }

func serve(ctx context.Context, args example.Args) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout:      args.Timeout,
		FirstMessage: min(5*time.Second, args.Timeout), // also for the header
		Room:         keepalive.Room{MaxPerKey: maxPerClient},
		OnClose: func(conn any, reason keepalive.Reason) {
			args.Closed(conn.(net.Conn).RemoteAddr(), reason)
		},
		Logger: args.Log,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	ln, err := net.Listen("tcp", args.Addr)
	if err != nil {
		return err
	}
	args.Listening(ln.Addr())
	srv := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, "you are", r.RemoteAddr)
		}),
	}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		stopped <- errors.Join(srv.Shutdown(patience), k.Drain(patience, 0))
	})
	if err := srv.Serve(k.Listener(&proxyproto.Listener{Listener: ln, ConnPolicy: trust})); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// trust believes the headers of a proxy on this machine, and requires one. Anybody else could
// claim to be anybody, and is not let in.
func trust(conn proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
	if addr, ok := conn.Upstream.(*net.TCPAddr); ok && addr.IP.IsLoopback() {
		return proxyproto.REQUIRE, nil
	}
	return proxyproto.REJECT, proxyproto.ErrInvalidUpstream // closed, and the next
}
