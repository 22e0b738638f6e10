// Command http serves HTTP/1.1 and, over TLS, HTTP/2, and hands connections over that
// leave HTTP.
//
// Requests and responses need no Heartwheel: http.Server has timeouts of its own, and
// says GOAWAY where it closes HTTP/2 for one. But a connection that was hijacked has
// none any more, and http.Server can neither bound how many one address may have nor
// shorten its timeouts when memory runs out. So both are used here.
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
		Activity: keepalive.ActivityReadWrite,     // who takes long to read an answer is alive
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
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
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

// stop lets requests finish, and then ends what has left HTTP, of which http.Server
// knows nothing any more.
func stop(srv *http.Server, k *keepalive.Keeper) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(srv.Shutdown(ctx), k.Drain(ctx, 0))
}

// connKey is where a request's context has its connection: a *tls.Conn over the guarded
// one, if there is TLS, which the Keeper takes as well.
type connKey struct{}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, "hello over", r.Proto)
}

// slow takes longer than the timeout, if it is asked to: /slow?for=1m. Meanwhile its
// connection is held. Not before the whole request has been read, or who stops in the
// middle of one would stay for ever. With HTTP/2 there may be many requests at a time, and
// the last one that ends counts.
func slow() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := time.ParseDuration(r.FormValue("for")) // may read a body
		if err != nil || d < 0 || d > time.Hour {
			http.Error(w, fmt.Sprintf("for=%q: must be a duration of up to 1h, such as 45s", r.FormValue("for")), http.StatusBadRequest)
			return
		}
		defer keepalive.Of(r.Context().Value(connKey{})).Hold()()
		select {
		case <-time.After(d):
			fmt.Fprintln(w, "done after", d)
		case <-r.Context().Done():
		}
	})
}

// lines leaves HTTP and echoes lines. Hijack has taken http.Server's deadlines away, and
// what is read and echoed is all that keeps the connection.
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

// echo returns why it has ended: nil where the peer has closed the connection.
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
