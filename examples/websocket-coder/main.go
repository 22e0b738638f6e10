// Command websocket-coder echoes messages over WebSocket, with coder/websocket.
//
// A silent peer is pinged. Pongs and whole messages are life, so a trickle of bytes does not
// keep a connection. If the peer does not answer, a close frame with status 1001 tells it why.
// With TLS all of that is the same.
package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/wskeepalive"
)

const (
	maxMessage   = 64 << 10 // bytes
	writeTimeout = 10 * time.Second
)

func main() { example.Main("127.0.0.1:8082", serve) }

func serve(ctx context.Context, args example.Args) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout: args.Timeout,
		Room:    keepalive.Room{MaxPerKey: 1000},
		Closing: keepalive.Closing{Mode: keepalive.CloseHalf}, // or a peer still sending may miss the close frame
		Logger:  args.Log,
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
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				return // Accept has answered
			}
			defer func() { _ = ws.CloseNow() }()
			guard := httpkeepalive.Guard(r)
			remote, ended := guard.RemoteAddr(ctx), guard.Context()
			if err := wskeepalive.Coder(guard, ws); err == nil {
				err = echo(ws, guard)
				args.Closed(remote, cmp.Or(context.Cause(ended), err)) // the library may say no more than that it is closed
			}
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
func echo(ws *websocket.Conn, guard *keepalive.Guard) error {
	ws.SetReadLimit(maxMessage)
	for {
		// The Keeper has a timeout for this, and ends it.
		kind, message, err := ws.Read(context.Background())
		if err != nil {
			return err
		}
		guard.Touch() // a whole message
		if err := write(ws, kind, message); err != nil {
			return err
		}
	}
}

func write(ws *websocket.Conn, kind websocket.MessageType, message []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	return ws.Write(ctx, kind, message)
}

// stop ends HTTP connections, and then the sockets: http.Server has forgotten them.
func stop(srv *http.Server, k *keepalive.Keeper) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(srv.Shutdown(ctx), k.Drain(ctx, 0))
}
