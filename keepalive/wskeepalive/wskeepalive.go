// Package wskeepalive closes a WebSocket when its peer answers no ping, and says goodbye with a
// close frame: for any library, plain and over TLS. The package imports none of them.
//
//	httpkeepalive.Wrap(srv, k)
//	err := srv.Serve(k.Listener(ln)) // or srv.ServeTLS
//
// and in a handler
//
//	w = wskeepalive.Hijacker(httpkeepalive.Guard(r), w)
//	conn, _, _, err := ws.UpgradeHTTP(r, w) // of gobwas/ws, or what your library has
//
// [Hijacker] puts a connection below the library that knows frames: it hears pongs, and writes pings between two frames
// of the program's. It is for gobwas/ws, lxzan/gws and olahol/melody, and any other library that hijacks the connection
// of a request. With melody, set Config.PingPeriod and PongWait to a thousand hours, or its own come first. [Server] is
// for programs without net/http, and [Client] for the client's side: a server that hangs is noticed in the same way.
//
// With gorilla/websocket and coder/websocket, one call after the upgrade does it, too, by the library's own pings:
//
//	ws, err := upgrader.Upgrade(w, r, nil) // or websocket.Accept
//	...
//	guard := httpkeepalive.Guard(r)
//	err = wskeepalive.Gorilla(guard, ws) // or wskeepalive.Coder
//
// The program reads and writes as always. As these libraries demand, some goroutine must always
// be reading: otherwise nobody hears the pongs.
//
//   - A pong is life. So is a whole message, with Gorilla and Coder if the program calls guard.Touch for it: that
//     saves the next ping. Bytes are not life, so a trickled message keeps no connection.
//   - A peer is asked after half of keepalive.Config.Timeout. Config.Probe has the times;
//     Probe.Send can stay nil. Without an answer the connection is closed with
//     keepalive.ReasonNoAnswer.
//   - Before any close by the Keeper, the peer gets a close frame. Its text is the name of the
//     keepalive.Reason. Its status is 1001 (going away) if a client should connect again, 1000
//     after a keepalive.ReasonLocal, and else 1008 (policy violation). It never comes in the middle of another frame.
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
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
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
	farewell := func(why net.Error, deadline time.Time) {
		reason := why.(keepalive.Reason)
		_ = ws.WriteControl(opClose, goodbye(reason), deadline) // it is closed anyway
	}
	if err := g.Binding().Upgrade(probe, farewell); err != nil {
		return err
	}
	ping, pong := ws.PingHandler(), ws.PongHandler()
	ws.SetPingHandler(func(data string) error { g.Touch(); return ping(data) })
	ws.SetPongHandler(func(data string) error { g.Pong(); return pong(data) })
	return nil
}

// CoderConn is a *websocket.Conn of github.com/coder/websocket, or of nhooyr.io/websocket from
// v1.8.11 on, its name before. Older versions close a connection when a ping's context ends. S is
// its StatusCode.
type CoderConn[S ~int] interface {
	Ping(ctx context.Context) error
	Close(code S, reason string) error
}

// Coder keeps a WebSocket of coder/websocket alive. g is the guard of its connection:
// httpkeepalive.Guard(r) in a handler. S follows from ws. A ping waiting for its pong has a
// goroutine. A peer without pongs holds the last 16 pings, and those that another one has pushed
// out within a minute.
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
	var waiting pings
	probe := func() error {
		p := newPing(g)
		if oldest := waiting.add(p); oldest != nil {
			info, _ := g.Info()
			time.AfterFunc(max(written, min(info.Timeout, slow)), oldest.end)
		}
		go func() {
			defer p.done()
			defer waiting.remove(p)
			if ws.Ping(p) == nil {
				g.Pong()
			}
		}()
		return nil
	}
	farewell := func(why net.Error, _ time.Time) { // it ends with the connection
		reason := why.(keepalive.Reason)
		_ = ws.Close(S(status(reason)), reason.String())
	}
	return g.Binding().Upgrade(probe, farewell)
}

// ping is a ping of coder/websocket. Its context has no deadline of its own: a pong may be late by as long as this
// process was stopped. The context ends with the connection, or some time after 16 more pings. Keeper.Close
// leaves the connection open, and so the ping, too: while it is written, the end of its context would close the
// connection.
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

// pings are those of a connection that wait for their pongs, the oldest first.
type pings struct {
	mu  sync.Mutex
	all []*ping
}

// add adds a ping. If there are too many then, it takes the oldest one out and returns it.
func (p *pings) add(one *ping) (oldest *ping) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, one)
	if len(p.all) > mostPings {
		oldest = p.all[0]
		p.all = slices.Delete(p.all, 0, 1)
	}
	return oldest
}

func (p *pings) remove(one *ping) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = slices.DeleteFunc(p.all, func(other *ping) bool { return other == one })
}

// mostPings bounds the pings of a peer that answers none, and lives by its messages. It is a number and no time: by
// its Config.Timeout a peer may take longer for a pong than any fixed time.
const mostPings = 16

// slow is how long a ping goes on after mostPings more: if these come within seconds, a slow peer's pong may be later.
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
	opPong  = 10
)

// Statuses of RFC 6455, section 7.4.1.
const (
	normalClosure   = 1000
	goingAway       = 1001
	policyViolation = 1008
)

// goodbye returns the payload of the close frame.
func goodbye(reason keepalive.Reason) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(status(reason))), reason.String()...)
}

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
