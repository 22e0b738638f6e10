// Command websocket-coder echoes messages over WebSocket, with coder/websocket.
//
// Whole messages, pings and pongs are life, so a trickle of bytes does not keep a
// connection. A silent peer is pinged. If it does not answer, a close frame with status 1001
// tells it why before the end.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

const (
	maxMessage   = 64 << 10 // bytes
	writeTimeout = 10 * time.Second
)

func main() { example.Main("127.0.0.1:8082", serve) }

// socket is the value of a hijacked connection.
type socket struct {
	*websocket.Conn
	writing atomic.Bool // a message, perhaps with several calls of Write
}

// socketOf returns the socket of a connection, or nil while it speaks HTTP.
func socketOf(conn any) *socket {
	s, _ := keepalive.Of(conn).Value().(*socket)
	return s
}

func serve(ctx context.Context, args example.Args) error {
	var pings sync.WaitGroup
	defer pings.Wait()
	k, err := keepalive.New(keepalive.Config{
		Timeout:  args.Timeout,
		Activity: keepalive.ActivityManual,
		Probe: keepalive.Probing{
			After: args.Timeout / 2,
			Send: func(conn any) error {
				if s := socketOf(conn); s != nil {
					pings.Go(func() { ping(s, args.Timeout) })
				}
				return nil
			},
		},
		Room: keepalive.Room{MaxPerKey: 1000},
		Closing: keepalive.Closing{
			Farewell: func(conn any, reason keepalive.Reason) []byte {
				if s := socketOf(conn); s != nil && !s.writing.Load() {
					return goodbye(reason)
				}
				return nil // HTTP, or in the middle of a frame
			},
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
			guard := httpkeepalive.Guard(r)
			ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
				OnPingReceived: func(context.Context, []byte) bool { guard.Touch(); return true },
				OnPongReceived: func(context.Context, []byte) { guard.Pong() },
			})
			if err != nil {
				return // Accept has answered
			}
			defer func() { _ = ws.CloseNow() }()
			s := &socket{Conn: ws}
			guard.SetValue(s)
			args.Closed(guard.RemoteAddr(ctx), s.echo(guard))
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
	for {
		// The Keeper has a timeout for this, and ends it.
		kind, message, err := s.Read(context.Background())
		if err != nil {
			return err
		}
		release := guard.Hold() // while we work for it, and a touch at the end
		err = s.send(kind, message)
		release()
		if err != nil {
			return err
		}
	}
}

func (s *socket) send(kind websocket.MessageType, message []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	s.writing.Store(true)
	defer s.writing.Store(false)
	return s.Write(ctx, kind, message)
}

// ping has a goroutine of its own, since the library's waits for the pong. It runs only while
// a peer is silent.
func ping(s *socket, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_ = s.Ping(ctx) // the pong has been heard, or the Keeper knows what to do
}

// goodbye is a close frame. The library would wait for the answer. It is written past
// all layers, so with TLS there must be none.
func goodbye(reason keepalive.Reason) []byte {
	const fin, opClose = 0x80, 0x8
	text := reason.String()
	frame := []byte{fin | opClose, byte(2 + len(text))}
	frame = binary.BigEndian.AppendUint16(frame, uint16(websocket.StatusGoingAway))
	return append(frame, text...)
}

// stop ends HTTP connections, and then the sockets: http.Server has forgotten them.
func stop(srv *http.Server, k *keepalive.Keeper) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(srv.Shutdown(ctx), k.Drain(ctx, 0))
}
