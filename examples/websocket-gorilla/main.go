// Command websocket-gorilla echoes messages over WebSocket, with gorilla/websocket.
//
// Whole messages and pongs are life, so a trickle of bytes does not keep a connection. A
// silent peer is pinged. If it does not answer, a close frame with status 1001 tells it why
// before the end. The library sends that frame, so it comes between two others.
package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

const (
	maxMessage   = 64 << 10 // bytes
	writeTimeout = 10 * time.Second
)

func main() { example.Main("127.0.0.1:8081", serve) }

// socket is the value of a hijacked connection.
type socket struct {
	*websocket.Conn
	told atomic.Uint32 // the keepalive.Reason in the close frame to its peer, or 0
}

// socketOf returns the socket of a connection, or nil while it speaks HTTP.
func socketOf(conn any) *socket {
	s, _ := keepalive.Of(conn).Value().(*socket)
	return s
}

func serve(ctx context.Context, args example.Args) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout:  args.Timeout,
		Activity: keepalive.ActivityManual,
		Probe: keepalive.Probing{
			After: args.Timeout / 2,
			Send:  func(conn any) error { return socketOf(conn).control(websocket.PingMessage, nil) },
		},
		Room: keepalive.Room{MaxPerKey: 1000},
		OnIdle: func(conn any, reason keepalive.Reason) keepalive.Verdict {
			socketOf(conn).goodbye(reason)
			return keepalive.Close
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
		IdleTimeout:       args.Timeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
			if err != nil {
				return // Upgrade has answered
			}
			defer ws.Close()
			guard, s := httpkeepalive.Guard(r), &socket{Conn: ws}
			guard.SetValue(s)
			err = s.echo(guard)
			if told := s.told.Load(); told != 0 {
				err = keepalive.Reason(told) // the peer's answer may have come first
			}
			args.Closed(ws.RemoteAddr(), err)
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
func (s *socket) echo(guard *keepalive.Guard) error {
	s.SetReadLimit(maxMessage)
	s.SetPongHandler(func(string) error { guard.Pong(); return nil })
	answerPing := s.PingHandler()
	s.SetPingHandler(func(data string) error { guard.Touch(); return answerPing(data) })
	for {
		kind, message, err := s.ReadMessage()
		if err != nil {
			return err
		}
		release := guard.Hold() // while we work for it, and a touch at the end
		_ = s.SetWriteDeadline(time.Now().Add(writeTimeout))
		err = s.WriteMessage(kind, message)
		release()
		if err != nil {
			return err
		}
	}
}

// control sends a control frame, from any goroutine. It does not wait for a slow peer.
func (s *socket) control(kind int, data []byte) error {
	if s == nil {
		return nil // an error would end the connection
	}
	return s.WriteControl(kind, data, time.Now().Add(100*time.Millisecond))
}

// goodbye sends a close frame. The peer may then close the connection before we do.
func (s *socket) goodbye(reason keepalive.Reason) {
	if s != nil {
		s.told.Store(uint32(reason))
	}
	why := websocket.FormatCloseMessage(websocket.CloseGoingAway, reason.String())
	_ = s.control(websocket.CloseMessage, why) // it is closed anyway
}

// stop ends HTTP connections, and then the sockets: http.Server has forgotten them.
func stop(srv *http.Server, k *keepalive.Keeper) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := srv.Shutdown(ctx)
	for conn := range k.Conns() {
		socketOf(conn).goodbye(keepalive.ReasonDrain)
	}
	return errors.Join(err, k.Drain(ctx, 0))
}
