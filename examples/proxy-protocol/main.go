// Command proxy-protocol is a web server behind a proxy: HAProxy, nginx, or a load balancer of
// a cloud. The proxy names its clients by the PROXY protocol.
//
// The listener for the header is inside, k.Listener around it, and TLS, if there is TLS,
// around both. Then MaxPerKey counts the connections of a client, and not the proxy's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// maxPerClient is small enough to be tried by hand.
const maxPerClient = 2

func main() {
	addr := flag.String("addr", "127.0.0.1:8084", "address to listen on, `host:port`; port 0 is any free one")
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

func serve(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout:      timeout,
		FirstMessage: min(5*time.Second, timeout), // also for the header
		Room:         keepalive.Room{MaxPerKey: maxPerClient},
		OnClose: func(conn any, reason keepalive.Reason) {
			logger.Info("closed", "remote", conn.(net.Conn).RemoteAddr(), "reason", reason.String())
		},
		Logger: logger,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	logger.Info("listening", "addr", ln.Addr())
	srv := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, "you are", r.RemoteAddr)
		}),
	}
	httpkeepalive.Wrap(srv, k)
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		stopped <- httpkeepalive.Shutdown(patience, srv, k)
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
