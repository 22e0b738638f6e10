package httpkeepalive

import (
	"context"
	"log"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// wrapper has Wrap's functions around those of a server.
type wrapper struct {
	server  *http.Server
	keeper  *keepalive.Keeper
	handler *handler // around the server's Handler in Wrap

	once    sync.Once
	begun   atomic.Bool // once is done
	handled sync.Once

	connections   sync.Map     // of net.Conn to *connection, until it is closed, or hijacked without h2c
	h2c           atomic.Int64 // requests that may be h2c connections
	warning, late sync.Once
}

type contextKey struct{}

func connectionOf(r *http.Request) *connection {
	c, _ := r.Context().Value(contextKey{}).(*connection)
	return c
}

// begin wraps what was set after Wrap. No connection of the server is served before: each begins with a
// call of ConnContext. So nothing else uses these fields. But another Serve may use the ConnContext, and
// its BaseContext comes first.
func (w *wrapper) begin(connContext bool) {
	w.once.Do(func() {
		w.server.ConnState = w.wrapConnState(w.server.ConnState)
		if connContext {
			w.server.ConnContext = w.wrapConnContext(w.server.ConnContext)
		}
		w.begun.Store(true)
	})
}

// handle wraps the Handler, if it was set after Wrap. It is called when bytes of a connection have been read, and
// before the server looks at its Handler: until then the program may set it, also while the server waits for the first
// connection.
func (w *wrapper) handle() {
	w.handled.Do(func() {
		if w.server.Handler != http.Handler(w.handler) {
			w.server.Handler = w.wrapHandler(w.server.Handler)
		}
	})
}

func (w *wrapper) wrapBaseContext(next func(net.Listener) context.Context) func(net.Listener) context.Context {
	return func(ln net.Listener) context.Context {
		w.begin(true)
		if next == nil {
			return context.Background()
		}
		return next(ln)
	}
}

func (w *wrapper) wrapConnContext(next func(context.Context, net.Conn) context.Context) func(context.Context, net.Conn) context.Context {
	return func(ctx context.Context, conn net.Conn) context.Context {
		w.begin(false)
		if ctx = w.newContext(ctx, conn); next == nil {
			return ctx
		}
		if ctx = next(ctx, conn); ctx == nil {
			return nil // the server says what is wrong
		}
		return w.newContext(ctx, conn) // it may not come from the one given to next
	}
}

// newContext notes a new connection. It may be called more than once.
func (w *wrapper) newContext(ctx context.Context, conn net.Conn) context.Context {
	g := keepalive.Of(conn)
	if g == nil || g.Keeper() != w.keeper {
		w.warning.Do(func() {
			w.logf("httpkeepalive: a connection of type %T is not guarded: the server must serve the Listener of the Keeper given to Wrap", conn)
		})
		return ctx
	}
	if c, ok := ctx.Value(contextKey{}).(*connection); ok && c.guard == g {
		return ctx
	}
	c := w.connection(conn)
	if c == nil || c.guard != g {
		c = newConnection(conn, g)
		w.connections.Store(conn, c)
	}
	return context.WithValue(ctx, contextKey{}, c)
}

func (w *wrapper) logf(format string, args ...any) {
	if w.server.ErrorLog != nil {
		w.server.ErrorLog.Printf(format, args...)
	} else {
		log.Printf(format, args...)
	}
}

func (w *wrapper) wrapConnState(next func(net.Conn, http.ConnState)) func(net.Conn, http.ConnState) {
	return func(conn net.Conn, state http.ConnState) {
		w.newState(conn, state)
		if next != nil {
			next(conn, state)
		}
	}
}

func (w *wrapper) newState(conn net.Conn, state http.ConnState) {
	if state == http.StateActive {
		w.handle()
	}
	c := w.connection(conn)
	if c == nil {
		return
	}
	switch state {
	case http.StateActive:
		c.exchange(true)
	case http.StateIdle:
		c.exchange(false)
	case http.StateHijacked:
		if !c.hijacked() {
			w.connections.Delete(c.conn)
		}
	case http.StateClosed:
		w.connections.Delete(c.conn)
		c.leave()
	}
}

// connection returns a connection of the server's, or nil. h2c has a struct of its own around a
// connection, with the bytes that it has read.
func (w *wrapper) connection(conn net.Conn) *connection {
	c, ok := w.connections.Load(conn)
	if !ok && w.h2c.Load() > 0 {
		c, ok = w.connections.Load(embedded(conn))
	}
	if !ok {
		return nil
	}
	return c.(*connection)
}

// embedded returns the net.Conn embedded in a struct, or nil.
func embedded(conn net.Conn) (inner net.Conn) {
	v := reflect.Indirect(reflect.ValueOf(conn))
	if v.Kind() != reflect.Struct {
		return nil
	}
	field, ok := v.Type().FieldByName("Conn")
	if ok && field.Anonymous && len(field.Index) == 1 {
		inner, _ = v.FieldByIndex(field.Index).Interface().(net.Conn)
	}
	return inner
}

// handler is a Handler of the server's.
type handler struct {
	wrapper *wrapper
	next    http.Handler // or nil for http.DefaultServeMux
}

func (w *wrapper) wrapHandler(next http.Handler) *handler { return &handler{w, next} }

// ServeHTTP serves a request.
func (h *handler) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	next := h.next
	if next == nil {
		next = http.DefaultServeMux
	}
	c := connectionOf(r)
	if c == nil {
		h.wrapper.warnOfOrder(r)
		next.ServeHTTP(rw, r)
		return
	}
	c.request(r)
	if r.Body != nil && r.Body != http.NoBody {
		servers, own := r, *r // the server looks at the Body of its own
		own.Body = &body{r.Body, c, servers, &own}
		r = &own
		defer func() { servers.MultipartForm = own.MultipartForm }() // it removes the files
	}
	if isH2C(r) {
		defer h.wrapper.mayBeH2C(c)()
	}
	c.busy(1)
	defer c.busy(-1)
	c.serve(rw, r, next, h.wrapper.keeper)
}

// warnOfOrder warns if the server was to serve a connection without the functions of Wrap.
func (w *wrapper) warnOfOrder(r *http.Request) {
	if !w.begun.Load() && r.Context().Value(http.ServerContextKey) == w.server {
		w.late.Do(func() {
			w.logf("httpkeepalive: no connection is held while a request is served: BaseContext and ConnContext were set after Wrap")
		})
	}
}

// isH2C reports whether h2c of golang.org/x/net would take the connection of a request over, to serve
// HTTP/2 on it.
func isH2C(r *http.Request) bool {
	return r.Method == "PRI" && r.ProtoMajor == 2 || r.ProtoMajor == 1 && strings.Contains(r.Header.Get("Upgrade"), "h2c")
}

// mayBeH2C goes on to note the states of a connection after a hijack, until the returned function is
// called: after the last request of h2c.
func (w *wrapper) mayBeH2C(c *connection) (over func()) {
	w.h2c.Add(1)
	c.setH2C(true)
	return func() {
		w.h2c.Add(-1)
		if c.setH2C(false) {
			w.connections.Delete(c.conn)
		}
	}
}
