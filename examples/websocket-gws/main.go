// Command websocket-gws echoes messages over WebSocket, with lxzan/gws.
//
// A silent peer is pinged. Pongs and whole messages are life, so a trickle of bytes does not keep a connection. If the
// peer does not answer, a close frame with status 1001 tells it why. With TLS all of that is the same.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lxzan/gws"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/wskeepalive"
)

const (
	maxMessage   = 64 << 10 // bytes
	writeTimeout = 10 * time.Second
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8089", "address to listen on, `host:port`; port 0 is any free one")
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
		Timeout: timeout,
		Room:    keepalive.Room{MaxPerKey: 1000},
		Closing: keepalive.Closing{Mode: keepalive.CloseHalf}, // or a peer still sending may miss the close frame
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
	upgrader := gws.NewUpgrader(echo{logger: logger}, &gws.ServerOption{ReadMaxPayloadSize: maxMessage})
	srv := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       timeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			socket, err := upgrader.Upgrade(wskeepalive.Hijacker(httpkeepalive.Guard(r), w), r)
			if err != nil {
				logger.Debug("refused", "remote", r.RemoteAddr, "error", err)
				return // Upgrade has answered, or can't
			}
			go socket.ReadLoop() // the request is over
		}),
	}
	httpkeepalive.Wrap(srv, k)
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() { stopped <- stop(srv, k) })
	if err := srv.Serve(k.Listener(ln)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// echo has no pings of its own.
type echo struct {
	gws.BuiltinEventHandler
	logger *slog.Logger
}

func (echo) OnPing(socket *gws.Conn, payload []byte) { _ = socket.WritePong(payload) }

func (echo) OnMessage(socket *gws.Conn, message *gws.Message) {
	defer message.Close()
	_ = socket.SetWriteDeadline(time.Now().Add(writeTimeout))
	_ = socket.WriteMessage(message.Opcode, message.Bytes()) // OnClose gets the error
}

func (e echo) OnClose(socket *gws.Conn, err error) {
	e.logger.Debug("ended", "remote", socket.RemoteAddr(), "error", err)
}

// stop says goodbye to the sockets, and lets requests finish.
func stop(srv *http.Server, k *keepalive.Keeper) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return httpkeepalive.Shutdown(ctx, srv, k)
}
