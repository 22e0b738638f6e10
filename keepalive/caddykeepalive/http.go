package caddykeepalive

import (
	"context"
	"net"
	"net/http"
	"reflect"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// connState tells the Keeper of the requests of a connection: it is held while one is served, and neither an age nor a drain
// ends it in the middle of one.
func (w *ListenerWrapper) connState(conn net.Conn, state http.ConnState) {
	g := guardOf(conn)
	if g == nil || g.Keeper() != w.keeper {
		return
	}
	b := g.Binding()
	switch state {
	case http.StateNew:
		b.Exchanges(func() {}, conn.Close)
	case http.StateActive:
		b.Exchange(true)
		b.CountBacklog(true)
		w.hold(g)
	case http.StateIdle:
		b.Exchange(false)
		w.release(g)
	case http.StateHijacked:
		b.Exchanges(nil, nil)
		b.CountBacklog(false)
		w.release(g)
	case http.StateClosed:
		w.release(g)
	}
}

func (w *ListenerWrapper) hold(g *keepalive.Guard) {
	if _, held := w.held.Load(g); !held { // one goroutine at a time tells of a connection
		w.held.Store(g, g.Hold())
	}
}

func (w *ListenerWrapper) release(g *keepalive.Guard) {
	if release, held := w.held.LoadAndDelete(g); held {
		release.(func())()
	}
}

// maxLayers bounds how many structs there may be around a connection.
const maxLayers = 10

// guardOf returns the guard of a connection, also of one in a struct of Caddy's that embeds it, or nil.
func guardOf(conn net.Conn) *keepalive.Guard {
	for range maxLayers {
		if g := keepalive.Of(conn); g != nil {
			return g
		}
		v := reflect.Indirect(reflect.ValueOf(conn))
		if v.Kind() != reflect.Struct {
			return nil
		}
		field := v.FieldByName("Conn")
		inner, ok := net.Conn(nil), false
		if field.IsValid() && field.CanInterface() {
			inner, ok = field.Interface().(net.Conn)
		}
		if !ok {
			return nil
		}
		conn = inner
	}
	return nil
}

// finish ends the Keeper of a config that is in force no longer, after the last of its connections.
func (w *ListenerWrapper) finish(k *keepalive.Keeper) {
	defer k.Close()
	if w.Drain > 0 {
		_ = k.Drain(context.Background(), time.Duration(w.Drain))
		return
	}
	for k.Len() > 0 {
		time.Sleep(time.Second)
	}
}
