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
	"net"
	"net/http"
	"time"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

func main() {
	overTLS := flag.Bool("tls", false, "speak TLS, with a certificate made for the occasion")
	example.Main("127.0.0.1:8080", func(ctx context.Context, args example.Args) error {
		return serve(ctx, args, *overTLS)
	})
}

func serve(ctx context.Context, args example.Args, overTLS bool) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout:  args.Timeout,
		Activity: keepalive.ActivityReadWrite,     // after a hijack, a peer may only listen
		Room:     keepalive.Room{MaxPerKey: 1000}, // connections of one address
		Logger:   args.Log,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	mux.Handle("/slow", slow())
	mux.Handle("/lines", lines(args))
	srv := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       args.Timeout, // zero would mean ReadTimeout, or none
	}
	httpkeepalive.Wrap(srv, k)
	ln, err := net.Listen("tcp", args.Addr)
	if err != nil {
		return err
	}
	args.Listening(ln.Addr())
	ln = k.Listener(ln) // below TLS

	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() { stopped <- stop(srv, k) })
	if err := serveOn(srv, ln, overTLS); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

func serveOn(srv *http.Server, ln net.Listener, overTLS bool) error {
	if !overTLS {
		return srv.Serve(ln)
	}
	certificate, err := example.Certificate()
	if err != nil {
		return err
	}
	srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	return srv.ServeTLS(ln, "", "") // with HTTP/2
}

// stop lets requests finish, and then ends the hijacked connections: http.Server has forgotten
// them.
func stop(srv *http.Server, k *keepalive.Keeper) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(srv.Shutdown(ctx), k.Drain(ctx, 0))
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
func lines(args example.Args) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil { // HTTP/2 has no connection to give away
			http.Error(w, err.Error(), http.StatusHTTPVersionNotSupported)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n")
		args.Closed(conn.RemoteAddr(), echo(rw))
	})
}

// echo returns why it has ended: nil if the peer has closed the connection.
func echo(rw *bufio.ReadWriter) error {
	if err := rw.Flush(); err != nil {
		return err
	}
	in := bufio.NewScanner(rw)
	for in.Scan() {
		fmt.Fprintln(rw, in.Text())
		if err := rw.Flush(); err != nil {
			return err
		}
	}
	return in.Err()
}
