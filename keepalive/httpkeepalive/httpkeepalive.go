// Package httpkeepalive has an http.Server and a Keeper share connections.
//
//	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
//	httpkeepalive.Wrap(srv, k)
//	err := srv.Serve(k.Listener(ln)) // or srv.ServeTLS
//
// A connection is idle only while the server waits for its peer:
//
//   - Between two requests it is idle, and is closed after Config.Timeout. So is a connection
//     that stops in the middle of a header. A trickling header ends by
//     http.Server.ReadHeaderTimeout, or by Config.Timeout with keepalive.ActivityManual.
//   - While the handler waits for more of the request's body, it is idle, too. A trickling
//     body ends by http.Server.ReadTimeout. One that streams a response meanwhile holds the connection
//     itself, by [Guard] and Hold.
//   - While the handler does anything else, the connection is held, see keepalive.Guard.Hold.
//     So a handler may take its time, and an event stream may have nothing to say. For TCP on
//     Linux, a peer that takes nothing of a response for a whole timeout is closed.
//   - After the handler, a peer may take the rest of a response as slowly as before, for TCP on Linux.
//   - After Hijack the connection is a connection like any other, with its own timeout: see
//     [Guard] for its handle, and package wskeepalive for WebSockets.
//
// All of this holds for HTTP/1.1 and HTTP/2, plain and over TLS, and with any
// keepalive.Activity. An HTTP/2 connection is held while any of its requests is. Two settings
// of http.Server complete it. With an IdleTimeout of less than Config.Timeout, idle connections
// get a GOAWAY before they are closed. HTTP2.SendPingTimeout finds a peer that vanishes while a
// stream's window is full: the socket has nothing to send, so the Keeper can't tell.
package httpkeepalive

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// Wrap tells the Keeper how the server uses its connections. It must be called before the
// server serves, and after its Handler, ConnContext and ConnState are set: it wraps all three.
// The server must serve guarded connections of k: from k.Listener, or TLS over them. Wrap
// leaves other connections alone, and warns of the first in the server's ErrorLog.
func Wrap(srv *http.Server, k *keepalive.Keeper) {
	w := &wrapper{
		keeper:      k,
		handler:     srv.Handler,
		connContext: srv.ConnContext,
		connState:   srv.ConnState,
		errorLog:    srv.ErrorLog,
	}
	if w.handler == nil {
		w.handler = http.DefaultServeMux
	}
	srv.Handler, srv.ConnContext, srv.ConnState = w, w.newContext, w.newState
}

// Guard returns the guard of a request's connection, or nil if the connection is not guarded.
// All methods of a nil Guard may be called.
func Guard(r *http.Request) *keepalive.Guard {
	if c := connectionOf(r); c != nil {
		return c.guard
	}
	return nil
}

// wrapper has Wrap's functions around those of a server.
type wrapper struct {
	keeper      *keepalive.Keeper
	handler     http.Handler
	connContext func(context.Context, net.Conn) context.Context
	connState   func(net.Conn, http.ConnState)
	errorLog    *log.Logger

	connections sync.Map // of net.Conn to *connection, until it is hijacked or closed
	warning     sync.Once
}

type contextKey struct{}

func connectionOf(r *http.Request) *connection {
	c, _ := r.Context().Value(contextKey{}).(*connection)
	return c
}

func (w *wrapper) newContext(ctx context.Context, conn net.Conn) context.Context {
	if g := keepalive.Of(conn); g != nil && adapter.Keeper(g) == w.keeper {
		c := &connection{guard: g}
		w.connections.Store(conn, c)
		ctx = context.WithValue(ctx, contextKey{}, c)
	} else {
		w.warning.Do(func() { w.warn(conn) })
	}
	if w.connContext != nil {
		ctx = w.connContext(ctx, conn)
	}
	return ctx
}

func (w *wrapper) warn(conn net.Conn) {
	logger := w.errorLog
	if logger == nil {
		logger = log.Default()
	}
	logger.Printf("httpkeepalive: a connection of type %T is not guarded: the server must serve the Listener of the Keeper given to Wrap", conn)
}

func (w *wrapper) newState(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateHijacked, http.StateClosed:
		if c, ok := w.connections.LoadAndDelete(conn); ok {
			c.(*connection).leave()
		}
	}
	if w.connState != nil {
		w.connState(conn, state)
	}
}

// ServeHTTP serves a request.
func (w *wrapper) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if c := connectionOf(r); c != nil {
		if r.Body != nil && r.Body != http.NoBody {
			servers, own := r, *r // the server looks at the Body of its own
			own.Body = &body{r.Body, c, servers, &own}
			r = &own
			defer func() { servers.MultipartForm = own.MultipartForm }() // it removes the files
		}
		c.busy(1)
		defer c.busy(-1)
	}
	w.handler.ServeHTTP(rw, r)
}

// connection is a connection of the server's.
type connection struct {
	guard *keepalive.Guard

	mu       sync.Mutex
	handlers int    // not waiting for the peer
	left     bool   // it is not the server's any more
	release  func() // ends the hold, or nil
}

// busy adds n to the handlers not waiting for the peer.
func (c *connection) busy(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers += n
	if n > 0 && !c.left {
		adapter.CountBacklog(c.guard, true) // the server writes the end of the response after the handler
	}
	c.hold(c.handlers > 0 && !c.left)
}

// leave takes the connection away from the server.
func (c *connection) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = true
	adapter.CountBacklog(c.guard, false)
	c.hold(false)
}

// hold holds the connection, or releases it. mu must be held.
func (c *connection) hold(want bool) {
	switch {
	case want && c.release == nil:
		c.release = c.guard.Hold()
	case !want && c.release != nil:
		c.release()
		c.release = nil
	}
}

// body is the body of a request. A read waits for the peer.
type body struct {
	io.ReadCloser
	connection   *connection
	servers, own *http.Request
}

func (b *body) Read(p []byte) (int, error) {
	b.connection.busy(-1)
	defer b.connection.busy(1)
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.servers.Trailer != nil {
		b.own.Trailer = b.servers.Trailer // the server has read it
	}
	return n, err
}

// Close may have to read the rest.
func (b *body) Close() error {
	b.connection.busy(-1)
	defer b.connection.busy(1)
	return b.ReadCloser.Close()
}
