// Package httpkeepalive has an http.Server and a Keeper share connections.
//
//	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
//	httpkeepalive.Wrap(srv, k)
//	err := srv.Serve(k.Listener(ln)) // or srv.ServeTLS
//
// and at the end
//
//	err = httpkeepalive.Shutdown(ctx, srv, k)
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
// A maximum age (keepalive.Age) and a drain end a connection between two requests. At that time
// the next response says Connection: close, or GOAWAY with HTTP/2. So does the response to a request
// under way, unless its header has left. Without another request the connection is closed after
// Age.Grace, or after 1.5 s if there is none. [Ending] tells a handler that does not end by itself, such as an event
// stream. A request that goes on is cut at the end of Age.Grace, or of the context of the drain. If
// Age.Grace is zero, a request may take as long as it does.
//
// A request that has begun to arrive by then is read and answered. Its header has up to 10 s more to arrive as a whole, if
// Age.Grace, the context of the drain and http.Server.ReadHeaderTimeout allow, and 1.5 s in a [Shutdown]. With HTTP/2, and before the first request over TLS,
// the Keeper can't tell a header from other bytes: then pauses between the bytes must be shorter than 1.5 s.
//
// With an Age.Max, a handler gets a ResponseWriter around that of net/http, and its method Unwrap returns that one. So
// http.MaxBytesReader does not close the connection by itself. Set Connection: close when its limit is reached, or give
// it the result of Unwrap.
//
// All of this holds for HTTP/1.1 and HTTP/2, plain and over TLS, and with any
// keepalive.Activity. An HTTP/2 connection is held while any of its requests is. Two settings
// of http.Server complete it. With an IdleTimeout of less than Config.Timeout, idle connections
// get a GOAWAY before they are closed. HTTP2.SendPingTimeout finds a peer that vanishes while a
// stream's window is full: the socket has nothing to send, so the Keeper can't tell.
//
// HTTP/2 without TLS is that of net/http, by http.Server.Protocols, or of h2c in golang.org/x/net. With h2c,
// Wrap does not see the requests, but only whether there are any: a connection is held while any
// is served, also while its handler waits for its body, and ends between two requests without a GOAWAY.
package httpkeepalive

import (
	"context"
	"errors"
	"net/http"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Wrap tells the Keeper how the server uses its connections. It must be called before the
// server serves. It wraps the server's Handler, ConnContext and ConnState, also if they are set
// after Wrap: when the server begins to serve, its BaseContext looks for ConnContext and ConnState, and the first
// request for the Handler. So set BaseContext before Wrap. The server must serve guarded connections of k: from k.Listener, or TLS over
// them. Wrap leaves other connections alone, and warns of the first in the server's ErrorLog.
//
// Wrap panics without a server, or without a Keeper from keepalive.New.
func Wrap(srv *http.Server, k *keepalive.Keeper) {
	mustHave("Wrap", srv, k)
	w := &wrapper{server: srv, keeper: k}
	w.handler = w.wrapHandler(srv.Handler)
	srv.Handler = w.handler
	srv.ConnContext = w.wrapConnContext(srv.ConnContext)
	srv.BaseContext = w.wrapBaseContext(srv.BaseContext)
}

// Shutdown ends a server given to [Wrap], and drains its Keeper. It refuses new connections. It tells
// WebSockets by their close frames, other connections outside of HTTP by their farewells, and
// handlers by [Ending]. A hijacked connection has 1.5 s for the rest of its handshake, unless package
// wskeepalive knows that it is complete. After that Shutdown calls http.Server.Shutdown, for the functions of
// RegisterOnShutdown, GOAWAY, and the end of the connections without a request. Shutdown waits for requests, and
// returns after the last OnClose.
//
// After the call of http.Server.Shutdown, net/http answers no request of HTTP/1 whose handler it has not called. So
// Shutdown makes that call when no such request is left. An idle connection has 1.5 s for one more request, and its
// response says Connection: close. After that the Keeper closes the connection, unless bytes wait in its socket: a
// program that is too busy to read a request at once answers it later. It closes connections of HTTP as the server does,
// TLS first, without a farewell and whatever Closing.Mode is. For connections without a first request, for
// half a header, and for responses whose header may have left without Connection: close, Shutdown waits for 1.5 s at
// most. If ctx has a deadline, that is a third of its time at most, and two thirds for all of this.
//
// Three kinds of requests get no answer:
//
//   - one that comes at the very moment of the close of its idle connection, as with any server of HTTP/1.1,
//   - one behind a response that ends after the call, and does not say Connection: close,
//   - one with half a header at the time of the call.
//
// When ctx is done, or if it is done already, Shutdown closes what is left, also in the middle of
// a request. Farewells still get their Closing.Timeout. If a request was cut, the error wraps
// ctx.Err(). Errors of http.Server.Shutdown are returned, too.
//
// All connections of the Keeper are drained, also those of other servers and other protocols. If
// several servers share a Keeper, call Shutdown for all of them at the same time. Calling it again does
// what a second call of http.Server.Shutdown does. Shutdown panics as Wrap does.
func Shutdown(ctx context.Context, srv *http.Server, k *keepalive.Keeper) error {
	mustHave("Shutdown", srv, k)
	served := make(chan error, 1)
	drained := k.Binder().Drain(ctx, func() {
		go func() { served <- srv.Shutdown(ctx) }()
	})
	err := <-served
	if ctx.Err() != nil {
		_ = srv.Close() // connections that are not the Keeper's
	}
	return errors.Join(err, drained)
}

func mustHave(name string, srv *http.Server, k *keepalive.Keeper) {
	if srv == nil || k.Binder() == nil {
		panic("httpkeepalive: " + name + " needs a server and a Keeper from New")
	}
}

// Guard returns the guard of a request's connection, or nil if the connection is not guarded.
// All methods of a nil Guard may be called.
func Guard(r *http.Request) *keepalive.Guard {
	if c := connectionOf(r); c != nil {
		return c.guard
	}
	return nil
}

// Ending returns a channel that is closed when the connection of a request is to end: at its maximum
// age, and when its Keeper drains. The handler of an event stream, or of a long poll, should then
// return. Other handlers need not care: see the package. The channel is nil if the connection is not
// guarded.
func Ending(r *http.Request) <-chan struct{} {
	if c := connectionOf(r); c != nil {
		return c.ending
	}
	return nil
}
