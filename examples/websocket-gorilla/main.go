// Command websocket-gorilla echoes messages over WebSocket, with gorilla/websocket.
//
// Whole messages and pongs are life, so a trickle of bytes does not keep a connection.
// A silent peer is pinged, and one that does not answer is told why before it is
// closed: status 1001, through the library, so it comes between two frames.
package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	maxMessage   = 64 << 10 // bytes
	writeTimeout = 10 * time.Second
)

func main() { example.Main("127.0.0.1:8081", serve) }

// socket is what has become of a connection.
type socket struct {
	*websocket.Conn
	told atomic.Uint32 // the keepalive.Reason that its peer was told, or 0
}

func serve(ctx context.Context, args example.Args) error {
	var sockets sync.Map // net.Conn: *socket, for whom the Keeper asks about a connection
	k, err := keepalive.New(keepalive.Config{
		Timeout:  args.Timeout,
		Activity: keepalive.ActivityManual,
		Probe: keepalive.Probing{
			After: args.Timeout / 2,
			Send: func(conn any) error {
				return control(&sockets, conn, websocket.PingMessage, nil)
			},
		},
		Room: keepalive.Room{MaxPerKey: 1000},
		OnIdle: func(conn any, reason keepalive.Reason) keepalive.Verdict {
			goodbye(&sockets, conn, reason)
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
			s := &socket{Conn: ws}
			sockets.Store(ws.NetConn(), s) // with TLS: ws.NetConn().(*tls.Conn).NetConn()
			defer sockets.Delete(ws.NetConn())
			err = echo(ws)
			if told := s.told.Load(); told != 0 {
				err = keepalive.Reason(told) // the peer's answer to that may have come first
			}
			args.Closed(ws.RemoteAddr(), err)
		}),
	}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() { stopped <- stop(srv, k, &sockets) })
	if err := srv.Serve(k.Listener(ln)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// echo returns why the connection has ended.
func echo(ws *websocket.Conn) error {
	conn := ws.NetConn() // the guarded one, or TLS over it
	ws.SetReadLimit(maxMessage)
	ws.SetPongHandler(func(string) error { keepalive.Of(conn).Pong(); return nil })
	answerPing := ws.PingHandler()
	ws.SetPingHandler(func(data string) error { keepalive.Touch(conn); return answerPing(data) })
	keepalive.Touch(conn) // the upgrade is its first message
	for {
		kind, message, err := ws.ReadMessage()
		if err != nil {
			return err
		}
		release := keepalive.Of(conn).Hold() // while we work for it, and a touch at the end
		_ = ws.SetWriteDeadline(time.Now().Add(writeTimeout))
		err = ws.WriteMessage(kind, message)
		release()
		if err != nil {
			return err
		}
	}
}

// control sends a control frame, from any goroutine, to a connection that is not HTTP any
// more. It does not wait for a slow peer.
func control(sockets *sync.Map, conn any, kind int, data []byte) error {
	s, ok := sockets.Load(conn)
	if !ok {
		return nil // not an error, which would close it: its time is not over
	}
	return s.(*socket).WriteControl(kind, data, time.Now().Add(100*time.Millisecond))
}

// goodbye sends a close frame. The peer may close the connection before we do, then.
func goodbye(sockets *sync.Map, conn any, reason keepalive.Reason) {
	if s, ok := sockets.Load(conn); ok {
		s.(*socket).told.Store(uint32(reason))
	}
	why := websocket.FormatCloseMessage(websocket.CloseGoingAway, reason.String())
	_ = control(sockets, conn, websocket.CloseMessage, why) // it is closed anyway
}

// stop ends what is still HTTP, and then the sockets, of which http.Server knows
// nothing any more.
func stop(srv *http.Server, k *keepalive.Keeper, sockets *sync.Map) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := srv.Shutdown(ctx)
	for conn := range sockets.Range {
		goodbye(sockets, conn, keepalive.ReasonDrain)
	}
	return errors.Join(err, k.Drain(ctx, 0))
}
