// Command http serves HTTP/1.1 and, over TLS, HTTP/2. It hands connections over if they leave
// HTTP.
//
// http.Server has timeouts of its own, and says GOAWAY before it closes idle HTTP/2
// connections, so both are used here. The Keeper adds the rest. A hijacked connection has no
// timeout of http.Server's any more. And http.Server does not limit the connections of one
// address, or shorten its timeouts when memory runs out.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
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

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on, `host:port`; port 0 is any free one")
	timeout := flag.Duration("timeout", 30*time.Second, "how long a connection may be silent")
	cert := flag.String("cert", "", "`file` with a certificate, for HTTPS (empty: HTTP)")
	key := flag.String("key", "", "`file` with its key")
	flag.Parse()
	switch {
	case *timeout <= 0:
		log.Fatalf("-timeout %v: must be positive", *timeout)
	case flag.NArg() > 0:
		log.Fatalf("unexpected argument %q: there are only flags", flag.Arg(0))
	}
	var config *tls.Config
	if *cert != "" || *key != "" {
		certificate, err := tls.LoadX509KeyPair(*cert, *key)
		if err != nil {
			log.Fatalf("-cert and -key: %v", err)
		}
		config = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := serve(ctx, *addr, *timeout, slog.Default(), config); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger, config *tls.Config) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout:  timeout,
		Activity: keepalive.ActivityReadWrite,     // after a hijack, a peer may only listen
		Room:     keepalive.Room{MaxPerKey: 1000}, // connections of one address
		OnClose: func(conn any, reason keepalive.Reason) {
			logger.Info("closed", "remote", conn.(net.Conn).RemoteAddr(), "reason", reason.String())
		},
		Logger: logger,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	mux.Handle("/slow", slow())
	mux.Handle("/lines", http.HandlerFunc(lines))
	srv := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       timeout, // zero would mean ReadTimeout, or none
		TLSConfig:         config,
	}
	httpkeepalive.Wrap(srv, k)
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	logger.Info("listening", "addr", ln.Addr())
	ln = k.Listener(ln) // below TLS

	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() { stopped <- stop(srv, k) })
	if config == nil {
		err = srv.Serve(ln)
	} else {
		err = srv.ServeTLS(ln, "", "") // with HTTP/2
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// stop lets requests finish, and says farewell to the hijacked connections: http.Server has forgotten them.
func stop(srv *http.Server, k *keepalive.Keeper) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return httpkeepalive.Shutdown(ctx, srv, k)
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, "hello over", r.Proto)
}

// slow takes longer than the timeout, if it is asked to: /slow?for=1m. Its connection is held,
// but not while a client is still sending its request.
func slow() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := time.ParseDuration(r.FormValue("for")) // may read a body
		if err != nil || d < 0 || d > time.Hour {
			http.Error(w, fmt.Sprintf("for=%q: must be a duration of up to 1h, such as 45s", r.FormValue("for")), http.StatusBadRequest)
			return
		}
		select {
		case <-time.After(d):
			fmt.Fprintln(w, "done after", d)
		case <-r.Context().Done():
		}
	})
}

// lines leaves HTTP and echoes lines. The connection has its own timeout then.
func lines(w http.ResponseWriter, _ *http.Request) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil { // HTTP/2 has no connection to give away
		http.Error(w, err.Error(), http.StatusHTTPVersionNotSupported)
		return
	}
	defer conn.Close()
	fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n")
	for in := bufio.NewScanner(rw); rw.Flush() == nil && in.Scan(); {
		fmt.Fprintln(rw, in.Text())
	}
}
