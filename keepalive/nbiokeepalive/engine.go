package nbiokeepalive

import (
	"time"

	"github.com/lesismal/nbio"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/nbiokeepalive/internal/conns"
	"github.com/heartwheel-go/heartwheel/keepalive/proxyprotocol"
)

// Engine is an nbio.Engine with guarded connections. Its methods are those of nbio.Engine. Set
// the functions of the program here, and not on the engine inside: those are the Keeper's.
type Engine struct {
	*nbio.Engine
	keeper  *keepalive.Keeper
	headers *proxyprotocol.Headers // nil without proxies
}

// Wrap returns an engine that guards each connection with k. engine has not been started, and
// functions set before on it are replaced. k is the caller's to close, after the engine has
// stopped. It may have other engines.
func Wrap(engine *nbio.Engine, k *keepalive.Keeper) *Engine {
	if engine == nil || k.Binder() == nil {
		panic("nbiokeepalive: Wrap needs an engine and a Keeper from keepalive.New")
	}
	e := &Engine{Engine: engine, keeper: k}
	e.OnOpen(func(*nbio.Conn) {})
	e.OnData(func(*nbio.Conn, []byte) {})
	e.OnClose(func(*nbio.Conn, error) {})
	return e
}

// WrapProxied is [Wrap] for accepted connections that begin with a header of the PROXY protocol. OnOpen comes after the
// header, RemoteAddr is the client's address from then on, and OnData gets the bytes behind the header only. If a connection ends
// before, or its client has too many, no function hears of it. OnRead panics: it would read the header, too.
//
// It returns an error that wraps proxyprotocol.ErrArgument if cfg is impossible.
func WrapProxied(engine *nbio.Engine, k *keepalive.Keeper, cfg proxyprotocol.Config) (*Engine, error) {
	e := Wrap(engine, k)
	headers, err := proxyprotocol.NewHeaders(cfg, k.Binder().Logger())
	if err != nil {
		return nil, err
	}
	e.headers = headers
	return e, nil
}

// OnOpen sets the function for new connections. They are guarded already. It is not called for a
// refused connection, and neither is any other function.
func (e *Engine) OnOpen(h func(c *nbio.Conn)) {
	e.Engine.OnOpen(func(nb *nbio.Conn) {
		conns.Accept(e.keeper, nb, e.headers, h)
	})
}

// OnData sets the function for bytes of the peer.
func (e *Engine) OnData(h func(c *nbio.Conn, data []byte)) {
	e.OnDataPtr(func(nb *nbio.Conn, data *[]byte) { h(nb, *data) })
}

// OnDataPtr is OnData for a function that may keep the buffer.
func (e *Engine) OnDataPtr(h func(c *nbio.Conn, data *[]byte)) {
	e.Engine.OnDataPtr(func(nb *nbio.Conn, data *[]byte) {
		if c, ok := conns.Enter(nb, data); ok {
			defer c.Leave()
			h(nb, data)
		}
	})
}

// OnRead sets the function that reads from a readable connection itself. OnData is not called
// then.
func (e *Engine) OnRead(h func(c *nbio.Conn)) {
	if e.headers != nil {
		panic("nbiokeepalive: OnRead after WrapProxied, must be OnData")
	}
	e.Engine.OnRead(func(nb *nbio.Conn) {
		c, ok := conns.Enter(nb, nil)
		if !ok {
			c.Discard()
			return
		}
		defer c.Leave()
		h(nb)
	})
}

// OnClose sets the function for closed connections. If the Keeper has closed the connection, err
// is the keepalive.Reason.
func (e *Engine) OnClose(h func(c *nbio.Conn, err error)) {
	e.Engine.OnClose(func(nb *nbio.Conn, err error) {
		conns.Of(nb).Closed(err, func(err error) { h(nb, err) })
	})
}

// DialAsync is DialAsyncTimeout without a timeout.
func (e *Engine) DialAsync(network, addr string, onConnected func(c *nbio.Conn, err error)) error {
	return e.DialAsyncTimeout(network, addr, 0, onConnected)
}

// DialAsyncTimeout is nbio's: the connection is guarded in onConnected, and OnOpen is not called
// for it. A refused connection is told to onConnected with the keepalive.Reason as its error.
func (e *Engine) DialAsyncTimeout(network, addr string, timeout time.Duration, onConnected func(c *nbio.Conn, err error)) error {
	return e.Engine.DialAsyncTimeout(network, addr, timeout, func(nb *nbio.Conn, err error) {
		if err == nil && !conns.Open(e.keeper, nb) {
			err = conns.Of(nb).Refused()
		}
		onConnected(nb, err)
	})
}
