// Command websocket-gobwas echoes messages over WebSocket, with gobwas/ws.
//
// A silent peer is pinged. Pings come between the frames of the program, which has no lock for them. Pongs and whole
// messages are life, so a trickle of bytes does not keep a connection. If the peer does not answer, a close frame with
// status 1001 tells it why. With TLS all of that is the same.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/wskeepalive"
)

const (
	maxMessage   = 64 << 10 // bytes
	writeTimeout = 10 * time.Second
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8088", "address to listen on, `host:port`; port 0 is any free one")
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
	srv := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       timeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, _, _, err := ws.UpgradeHTTP(r, wskeepalive.Hijacker(httpkeepalive.Guard(r), w))
			if err != nil {
				return // UpgradeHTTP has answered
			}
			defer conn.Close()
			err = echo(conn)
			logger.Debug("ended", "remote", r.RemoteAddr, "error", err)
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

// echo returns why the connection has ended.
func echo(conn net.Conn) error {
	const side = ws.StateServerSide
	control := wsutil.ControlFrameHandler(conn, side) // answers pings; another writer would need a lock for both
	frames := wsutil.Reader{Source: conn, State: side, CheckUTF8: true, MaxFrameSize: maxMessage, OnIntermediate: control}
	for {
		frame, err := frames.NextFrame()
		if err != nil {
			return err
		}
		if frame.OpCode.IsControl() {
			if err := control(frame, &frames); err != nil {
				return err
			}
			continue
		}
		message, err := io.ReadAll(io.LimitReader(&frames, maxMessage+1))
		switch {
		case err != nil:
			return err
		case len(message) > maxMessage:
			return wsutil.WriteServerMessage(conn, ws.OpClose, ws.NewCloseFrameBody(ws.StatusMessageTooBig, ""))
		}
		_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err := wsutil.WriteServerMessage(conn, frame.OpCode, message); err != nil {
			return err
		}
	}
}

// stop says goodbye to the sockets, and lets requests finish.
func stop(srv *http.Server, k *keepalive.Keeper) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return httpkeepalive.Shutdown(ctx, srv, k)
}
