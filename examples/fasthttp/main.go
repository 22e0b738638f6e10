// Command fasthttp serves HTTP/1.1 with valyala/fasthttp on guarded connections.
//
// fasthttp has IdleTimeout, ReadTimeout and WriteTimeout itself. For short requests they are enough.
// A Keeper adds limits with eviction of the idlest, shorter timeouts while descriptors run out,
// figures and a reason for each end. It also guards connections out of fasthttp's reach: hijacked
// ones, and responses to a client that takes nothing more.
//
// Bytes from a client and bytes acknowledged by it are life, so a slow download lives. While a
// handler or a stream of events runs, its connection is held.
//
// fasthttp's worker of a connection waits in Read as ever: a Keeper saves no goroutine. Leave
// MaxConnsPerIP alone, and use Room.MaxPerKey: fasthttp would wrap the connection once more, and
// keepalive.Of could not find it.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8086", "address to listen on, `host:port`; port 0 is any free one")
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
		Timeout:  timeout,
		Activity: keepalive.ActivityReadWrite,
		Room:     keepalive.Room{MaxConns: 100_000, Full: keepalive.FullEvict, MaxPerKey: 1000},
		OnClose: func(conn any, reason keepalive.Reason) {
			logger.Info("closed", "remote", conn.(net.Conn).RemoteAddr(), "reason", reason.String())
		},
		Logger: logger,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	fresh := new(newcomers)
	srv := &fasthttp.Server{
		Handler:     held(route),
		Concurrency: 200_000,          // above MaxConns: fasthttp refuses, and evicts nobody
		ReadTimeout: 10 * time.Second, // for a request with its body, or it could trickle for ever
		IdleTimeout: 2 * timeout,      // the Keeper's comes first. Zero would mean ReadTimeout
		ConnState:   fresh.note,
		Logger:      slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	logger.Info("listening", "addr", ln.Addr())
	stopped := make(chan error, 1)
	unused := context.AfterFunc(ctx, func() {
		stopped <- stop(srv, k, fresh)
		_ = ln.Close() // a shutdown before Serve has no effect on it
	})
	if err := srv.Serve(k.Listener(ln)); err != nil || unused() {
		return err
	}
	return <-stopped
}

// stop lets requests finish, and then ends the hijacked connections: fasthttp has forgotten them. A
// connection without a request has a second more to begin one.
func stop(srv *fasthttp.Server, k *keepalive.Keeper, fresh *newcomers) error {
	patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	defer time.AfterFunc(time.Second, fresh.close).Stop()
	return errors.Join(srv.ShutdownWithContext(patience), k.Drain(patience, 0))
}

// newcomers are the connections without a byte of a request so far. A shutdown waits for them, up to 5 s.
type newcomers struct{ conns sync.Map }

// note is for fasthttp.Server.ConnState.
func (n *newcomers) note(conn net.Conn, state fasthttp.ConnState) {
	if state == fasthttp.StateNew {
		n.conns.Store(conn, nil)
	} else {
		n.conns.Delete(conn)
	}
}

func (n *newcomers) close() {
	n.conns.Range(func(conn, _ any) bool {
		keepalive.Of(conn).Close(keepalive.ReasonDrain)
		return true
	})
}

// held holds the connection while its handler runs. fasthttp reads the whole request before.
func held(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		defer keepalive.Of(ctx.Conn()).Hold()()
		next(ctx)
	}
}

func route(ctx *fasthttp.RequestCtx) {
	switch string(ctx.Path()) {
	case "/slow":
		slow(ctx)
	case "/events":
		events(ctx)
	case "/download": // written when the handler has returned: what the client acknowledges is life
		ctx.SetBody(make([]byte, 16<<20))
	case "/lines":
		ctx.Hijack(lines)
	default:
		fmt.Fprintln(ctx, "hello")
	}
}

// slow takes longer than the timeout, if it is asked to: /slow?for=1m.
func slow(ctx *fasthttp.RequestCtx) {
	d, err := duration(ctx, "for")
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusBadRequest)
		return
	}
	select {
	case <-time.After(d):
		fmt.Fprintln(ctx, "done after", d)
	case <-ctx.Done(): // the server stops
		ctx.Error("stopping", fasthttp.StatusServiceUnavailable)
	}
}

// events sends an event now and then: /events?every=1m. fasthttp calls the writer when the handler
// has returned, so the writer has a hold of its own. It must not use ctx.
func events(ctx *fasthttp.RequestCtx) {
	every, err := duration(ctx, "every")
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusBadRequest)
		return
	}
	release, done := keepalive.Of(ctx.Conn()).Hold(), ctx.Done()
	ctx.SetContentType("text/event-stream")
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer release()
		for n := 1; ; n++ {
			fmt.Fprintf(w, "data: %d\n\n", n)
			if w.Flush() != nil { // the client has left, or takes nothing
				return
			}
			select {
			case <-time.After(every):
			case <-done:
				return
			}
		}
	})
}

func duration(ctx *fasthttp.RequestCtx, name string) (time.Duration, error) {
	text := string(ctx.FormValue(name))
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > time.Hour {
		return 0, fmt.Errorf("%s=%q: must be a duration of up to 1h, such as 45s", name, text)
	}
	return d, nil
}

// lines echoes lines on a hijacked connection. The Keeper guards it as before.
func lines(conn net.Conn) {
	_ = conn.SetDeadline(time.Time{}) // fasthttp's last one
	for in := bufio.NewScanner(conn); in.Scan(); {
		if _, err := fmt.Fprintln(conn, in.Text()); err != nil {
			return
		}
	}
}
