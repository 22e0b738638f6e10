// Command hand-over is a web server with WebSockets. On SIGHUP it starts its own file, as it is by then, and
// hands its socket over: no connect is refused, and no supervisor is needed.
//
//	go build -o web ./hand-over && ./web -pid web.pid &
//	go build -o new ./hand-over && mv new web && kill -HUP "$(cat web.pid)"
//
// Both processes accept until the new one serves. Then the old one closes its listener, answers its requests,
// and sends its WebSockets away with close frames, spread over a quarter of -drain: their clients come back to the new one.
// What is left after -drain is cut. If the new one does not serve within -start, the old one serves on.
//
// It does not work as the first process of a container: the container ends with the old one.
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

	"github.com/cloudflare/tableflip"
	"github.com/gorilla/websocket"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/wskeepalive"
)

type options struct {
	addr, pidFile         string
	timeout, start, drain time.Duration
}

func main() {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP) // first of all: SIGHUP would end the process
	var o options
	flag.StringVar(&o.addr, "addr", "127.0.0.1:8091", "address to listen on, `host:port`; port 0 is any free one")
	flag.StringVar(&o.pidFile, "pid", "", "`file` for the number of the process that serves (empty: none)")
	flag.DurationVar(&o.timeout, "timeout", 30*time.Second, "how long a connection may be silent")
	flag.DurationVar(&o.start, "start", 10*time.Second, "how long a new process may take until it serves")
	flag.DurationVar(&o.drain, "drain", 20*time.Second, "how long the old one may take to leave; its goodbyes are spread over a quarter of that")
	flag.Parse()
	for name, value := range map[string]time.Duration{"timeout": o.timeout, "start": o.start, "drain": o.drain} {
		if value <= 0 {
			log.Fatalf("-%s %v: must be positive", name, value)
		}
	}
	if flag.NArg() > 0 {
		log.Fatalf("unexpected argument %q: there are only flags", flag.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := serve(ctx, o, hup, slog.Default()); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, o options, hup <-chan os.Signal, logger *slog.Logger) error {
	upgrader, err := tableflip.New(tableflip.Options{UpgradeTimeout: o.start, PIDFile: o.pidFile})
	if err != nil {
		return err
	}
	defer upgrader.Stop()
	k, err := keepalive.New(keepalive.Config{
		Timeout: o.timeout,
		Closing: keepalive.Closing{Mode: keepalive.CloseHalf}, // or a peer still sending may miss the close frame
		Logger:  logger,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	ln, err := upgrader.Listen("tcp", o.addr) // the socket of the process before, if there was one
	if err != nil {
		return err
	}
	logger.Info("listening", "addr", ln.Addr(), "pid", os.Getpid())
	ln = k.Listener(ln)
	mux := http.NewServeMux()
	mux.Handle("/", hello(logger))
	mux.HandleFunc("/ws", echo)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: o.timeout}
	httpkeepalive.Wrap(srv, k)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()

	if err := upgrader.Ready(); err != nil { // now the process before leaves
		return err
	}
	logger.Info("serving", "pid", os.Getpid(), "replaces", upgrader.HasParent())
	defer context.AfterFunc(ctx, upgrader.Stop)()
	go upgrade(upgrader, hup, logger)
	select {
	case <-upgrader.Exit(): // replaced, or told to end
	case err := <-served:
		return err
	}
	// First the listener, and the Keeper last: it would refuse what comes meanwhile. What waits in the socket is
	// the next process's, and the Keeper has seen all else when Serve returns.
	_ = ln.Close()
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		return err
	}
	logger.Info("leaving", "connections", k.Len())
	return leave(srv, k, o.drain)
}

// upgrade starts a new process at each signal, until one serves.
func upgrade(upgrader *tableflip.Upgrader, hup <-chan os.Signal, logger *slog.Logger) {
	for range hup {
		if err := upgrader.Upgrade(); err != nil {
			logger.Error("not replaced", "error", err)
			continue
		}
		return
	}
}

// leave ends all connections within a time. Until the old process has ended, the new one can't be replaced.
func leave(srv *http.Server, k *keepalive.Keeper, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = k.Drain(ctx, limit/4) // Shutdown says what is left
	return httpkeepalive.Shutdown(ctx, srv, k)
}

// hello answers after some time, if it is asked to: /?for=10s.
func hello(logger *slog.Logger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if wait := r.FormValue("for"); wait != "" {
			d, err := time.ParseDuration(wait)
			if err != nil || d < 0 || d > time.Hour {
				http.Error(w, fmt.Sprintf("for=%q: must be a duration of up to 1h, such as 45s", wait), http.StatusBadRequest)
				return
			}
			logger.Info("asked", "for", d)
			select {
			case <-time.After(d):
			case <-r.Context().Done(): // cut, or its client has gone
				return
			}
		}
		fmt.Fprintln(w, "hello from", os.Getpid())
	}
}

// echo says which process it is, and then echoes messages.
func echo(w http.ResponseWriter, r *http.Request) {
	ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered
	}
	defer ws.Close()
	guard := httpkeepalive.Guard(r)
	if err := wskeepalive.Gorilla(guard, ws); err != nil {
		return // closed meanwhile
	}
	ws.SetReadLimit(64 << 10)
	for kind, message := websocket.TextMessage, fmt.Append(nil, os.Getpid()); err == nil; {
		_ = ws.SetWriteDeadline(time.Now().Add(10 * time.Second))
		if err = ws.WriteMessage(kind, message); err == nil {
			kind, message, err = ws.ReadMessage()
			guard.Touch() // a whole message
		}
	}
}
