// Package wskeepalive closes a WebSocket when its peer answers no ping, and says goodbye with a
// close frame. One call after the upgrade does it, for gorilla/websocket and for
// coder/websocket, plain and over TLS. The package imports neither of them.
//
//	httpkeepalive.Wrap(srv, k)
//	err := srv.Serve(k.Listener(ln)) // or srv.ServeTLS
//
// and in a handler
//
//	ws, err := upgrader.Upgrade(w, r, nil) // or websocket.Accept
//	...
//	guard := httpkeepalive.Guard(r)
//	err = wskeepalive.Gorilla(guard, ws) // or wskeepalive.Coder
//
// The program reads and writes as always. As both libraries demand, some goroutine must always
// be reading: otherwise nobody hears the pongs.
//
//   - A pong is life. So is a whole message, if the program calls guard.Touch for it: that
//     saves the next ping. Bytes are not life, so a trickled message keeps no connection.
//   - A peer is asked after half of keepalive.Config.Timeout. Config.Probe has the times;
//     Probe.Send can stay nil. Without an answer the connection is closed with
//     keepalive.ReasonNoAnswer.
//   - Before any close by the Keeper, the peer gets a close frame. Its text is the name of the
//     keepalive.Reason. Its status is 1001 (going away) if a client should connect again, 1000
//     after a keepalive.ReasonLocal, and else 1008 (policy violation). The library writes the
//     frame, so the frame never comes in the middle of another one.
//   - A pending read then returns an error with the Reason in it. The cause of guard.Context has
//     it, too.
//   - A peer still busy with a long message is not silent, as long as it takes some of it. This
//     needs TCP on Linux. Elsewhere hold the connection around long writes, see
//     keepalive.Guard.Hold.
//
// Other connections of the same Keeper are as before, whatever their keepalive.Activity is.
// WebSockets over HTTP/2 share a connection, and are not for this package.
package wskeepalive

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// GorillaConn is a *websocket.Conn of github.com/gorilla/websocket.
type GorillaConn interface {
	PingHandler() func(data string) error
	SetPingHandler(h func(data string) error)
	PongHandler() func(data string) error
	SetPongHandler(h func(data string) error)
	WriteControl(kind int, data []byte, deadline time.Time) error
}

// Gorilla keeps a WebSocket of gorilla/websocket alive. g is the guard of its connection:
// httpkeepalive.Guard(r) in a handler, keepalive.Of(ws.NetConn()) anywhere. Gorilla must be
// called before the first read. It wraps the handlers for pings and pongs, so the program sets
// its own before. A ping of the peer is life, too.
//
// Gorilla returns keepalive.ErrNotGuarded if the connection is not guarded, or not any more.
func Gorilla(g *keepalive.Guard, ws GorillaConn) error {
	var pinging atomic.Bool
	probe := func() error {
		if !pinging.CompareAndSwap(false, true) {
			return nil // one waits already
		}
		go func() { // it may have to wait for a message being written
			defer pinging.Store(false)
			_ = ws.WriteControl(opPing, nil, time.Now().Add(patience))
		}()
		return nil
	}
	farewell := func(reason keepalive.Reason, deadline time.Time) {
		code := binary.BigEndian.AppendUint16(nil, uint16(status(reason)))
		_ = ws.WriteControl(opClose, append(code, reason.String()...), deadline) // it is closed anyway
	}
	if err := adapter.Upgrade(g, probe, farewell); err != nil {
		return err
	}
	ping, pong := ws.PingHandler(), ws.PongHandler()
	ws.SetPingHandler(func(data string) error { g.Touch(); return ping(data) })
	ws.SetPongHandler(func(data string) error { g.Pong(); return pong(data) })
	return nil
}

// CoderConn is a *websocket.Conn of github.com/coder/websocket, or of nhooyr.io/websocket, its
// name before. S is its StatusCode.
type CoderConn[S ~int] interface {
	Ping(ctx context.Context) error
	Close(code S, reason string) error
}

// Coder keeps a WebSocket of coder/websocket alive. g is the guard of its connection:
// httpkeepalive.Guard(r) in a handler. S follows from ws. A ping waiting for its pong has a
// goroutine: until the end of the connection, or a minute after the next ping.
//
// The close frame is the library's closing handshake: the connection is closed after the peer's
// close frame, or after keepalive.Closing.Timeout.
//
// The library closes a connection itself if a ping can't be written for 5 seconds. So a peer
// that takes none of the bytes in front of a ping may be closed before its timeout, with
// keepalive.ReasonLocal.
//
// Coder returns keepalive.ErrNotGuarded if the connection is not guarded, or not any more.
func Coder[S ~int](g *keepalive.Guard, ws CoderConn[S]) error {
	var last atomic.Pointer[ping]
	probe := func() error {
		p := newPing(g)
		if before := last.Swap(p); before != nil {
			info, _ := g.Info()
			before.replaced(max(written, min(info.Timeout, slow)))
		}
		go func() {
			defer p.done()
			if ws.Ping(p) == nil {
				g.Pong()
			}
		}()
		return nil
	}
	farewell := func(reason keepalive.Reason, _ time.Time) { // it ends with the connection
		_ = ws.Close(S(status(reason)), reason.String())
	}
	return adapter.Upgrade(g, probe, farewell)
}

// ping is a ping of coder/websocket. Its context ends with the connection, and not with a time: a pong may be late by as
// long as this process was stopped. Keeper.Close leaves the connection open, and so the ping, too: while it is
// written, the end of its context would close the connection.
type ping struct {
	context.Context
	end  context.CancelFunc
	left func() bool // ends the wait for the connection's end
}

func newPing(g *keepalive.Guard) *ping {
	p := new(ping)
	p.Context, p.end = context.WithCancel(context.Background())
	connected := g.Context()
	p.left = context.AfterFunc(connected, func() {
		if !errors.Is(context.Cause(connected), keepalive.ErrNotGuarded) {
			p.end()
		}
	})
	return p
}

func (p *ping) done() {
	p.left()
	p.end()
}

// replaced ends a ping for which another one has been sent, after a while: a slow peer's pong counts until then.
func (p *ping) replaced(after time.Duration) {
	if p.Err() == nil {
		time.AfterFunc(after, p.end)
	}
}

// slow is how late the pong of a slow peer may be after the next ping. It bounds the pings of a peer that answers none.
const slow = time.Minute

// written is longer than coder/websocket takes to write a ping, or to close the connection instead.
const written = 6 * time.Second

// patience is the deadline of a ping. A shorter one could break a connection whose peer is slow. The Keeper
// closes one whose peer is stuck.
const patience = time.Hour

// Opcodes of RFC 6455, section 5.2.
const (
	opClose = 8
	opPing  = 9
)

// Statuses of RFC 6455, section 7.4.1.
const (
	normalClosure   = 1000
	goingAway       = 1001
	policyViolation = 1008
)

// status returns the status of the close frame.
func status(reason keepalive.Reason) int {
	switch {
	case reason == keepalive.ReasonLocal:
		return normalClosure
	case reason.Retryable():
		return goingAway
	}
	return policyViolation
}
