// Package nbhttpkeepalive closes connections of nbhttp, nbio's HTTP and WebSocket server, when
// their peers have fallen silent.
//
//	engine := nbhttpkeepalive.Wrap(nbhttp.NewEngine(config), k)
//	err = engine.Start()
//
// It does what package nbiokeepalive does. Bytes of the peer are life, pings of WebSocket
// included. The decision on a connection comes behind its running handler, so a slow handler does not
// lose its peer. [keepalive.Of] and [keepalive.Touch] also take a *websocket.Conn.
//
// nbhttp has a read deadline of its own, KeepaliveTime of its Config and of websocket.Upgrader.
// 0 takes it away from WebSockets. That of HTTP can't be taken away: if it is shorter than the
// Keeper's timeout, it comes first, and the reason is ReasonLocal.
//
// It guards IOModNonBlocking, the default. Other connections pass through. OnOpen is called
// before a connection is guarded, and OnClose in the connection's own jobs. A farewell goes out
// as it is: with TLS there can't be one, and for a WebSocket it has to be a frame.
package nbhttpkeepalive

import (
	"net"

	"github.com/lesismal/llib/std/crypto/tls"
	"github.com/lesismal/nbio"
	"github.com/lesismal/nbio/nbhttp"
	"github.com/lesismal/nbio/nbhttp/websocket"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
	"github.com/heartwheel-go/heartwheel/keepalive/nbiokeepalive/internal/conns"
	"github.com/heartwheel-go/heartwheel/keepalive/proxyprotocol"
)

// Engine is an nbhttp.Engine with guarded connections. Its methods are those of nbhttp.Engine.
type Engine struct{ *nbhttp.Engine }

// Wrap returns an engine that guards each connection with k, also those of nbhttp's clients.
// engine has not been started, and its OnClose, if it was set, is replaced. k is the caller's to
// close, after the engine has stopped.
func Wrap(engine *nbhttp.Engine, k *keepalive.Keeper) *Engine {
	if engine == nil || k.Binder() == nil {
		panic("nbhttpkeepalive: Wrap needs an engine and a Keeper from keepalive.New")
	}
	return wrap(engine, k, nil)
}

// WrapProxied is [Wrap] for accepted connections that begin with a header of the PROXY protocol, before TLS if there is
// TLS. RemoteAddr, also of an http.Request, is the client's address. It returns an error that wraps
// proxyprotocol.ErrArgument if cfg is impossible.
func WrapProxied(engine *nbhttp.Engine, k *keepalive.Keeper, cfg proxyprotocol.Config) (*Engine, error) {
	e := Wrap(engine, k)
	headers, err := proxyprotocol.NewHeaders(cfg, k.Binder().Logger())
	if err != nil {
		return nil, err
	}
	return wrap(e.Engine, k, headers), nil
}

func wrap(engine *nbhttp.Engine, k *keepalive.Keeper, headers *proxyprotocol.Headers) *Engine {
	engine.Engine.OnOpen(func(nb *nbio.Conn) { conns.Accept(k, nb, headers, nil) })
	engine.OnData(func(nb *nbio.Conn, data []byte) {
		if c, ok := conns.Enter(nb, &data); ok {
			defer c.Leave()
			nb.DataHandler()(nb, data)
		}
	})
	e := &Engine{Engine: engine}
	e.OnClose(func(net.Conn, error) {})
	return e
}

// OnClose sets the function for closed connections. If the Keeper has closed the connection, err
// is the keepalive.Reason. It is also called for a refused connection.
func (e *Engine) OnClose(h func(c net.Conn, err error)) {
	e.Engine.OnClose(func(conn net.Conn, err error) {
		nb, _ := conn.(*nbio.Conn)
		c := conns.Of(nb)
		if refused := c.Refused(); refused != nil {
			h(conn, refused)
		}
		c.Closed(err, func(err error) { h(conn, err) })
	})
}

func init() {
	adapter.Find(func(conn any) adapter.Binding {
		switch c := conn.(type) {
		case *websocket.Conn:
			return keepalive.Of(c.Conn).Binding()
		case *nbhttp.Conn:
			return keepalive.Of(c.Conn).Binding()
		case *tls.Conn:
			return keepalive.Of(c.Conn()).Binding()
		}
		return nil
	})
}
