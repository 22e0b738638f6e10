package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	// adminConns leaves the descriptors to the connections of the server.
	adminConns = 16

	// requestTimeout is how long a request may take to arrive.
	requestTimeout = 5 * time.Second
)

// room is a listener with room for adminConns connections. A newcomer is never refused: the
// oldest connection makes room for it at once. Connections without a request, and connections
// with one, have half of the room each. So neither silent peers nor slow readers, however many
// and however fast they come, keep a short request out.
//
// The eviction of a Keeper spares the newest, and peers with bytes that nobody reads: there
// both are well, and here they would be a way to stay.
type room struct {
	net.Listener
	keeper *keepalive.Keeper
	places chan struct{} // has one for each connection
	closed chan struct{}
	close  sync.Once
}

func newRoom(ln net.Listener) (*room, error) {
	r := &room{Listener: ln, places: make(chan struct{}, adminConns), closed: make(chan struct{})}
	var err error
	r.keeper, err = keepalive.New(keepalive.Config{
		Timeout:      adminTimeout,
		Activity:     keepalive.ActivityManual, // so a trickle of bytes is no life
		FirstMessage: requestTimeout,
		Closing:      keepalive.Closing{Mode: keepalive.CloseReset}, // without a TIME_WAIT for each
		OnClose:      func(any, keepalive.Reason) { <-r.places },
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Accept returns the next connection as soon as it has a place.
func (r *room) Accept() (net.Conn, error) {
	c, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case r.places <- struct{}{}:
		return r.keeper.Conn(c), nil
	default:
		r.evict()
	}
	select {
	case r.places <- struct{}{}:
		return r.keeper.Conn(c), nil
	case <-r.closed:
		_ = c.Close()
		return nil, net.ErrClosed
	}
}

// evict closes the oldest connection, of those with a request or without, whichever are more.
func (r *room) evict() {
	var oldest [2]*keepalive.Guard
	var ages [2]time.Duration
	var count [2]int
	for c := range r.keeper.Conns() {
		guard := keepalive.Of(c)
		info, ok := guard.Info()
		if !ok {
			continue // its place is about to be free
		}
		kind := 0
		if info.Held {
			kind = 1
		}
		count[kind]++
		if oldest[kind] == nil || info.Age > ages[kind] {
			oldest[kind], ages[kind] = guard, info.Age
		}
	}
	kind := 0
	if count[1] > count[0] {
		kind = 1
	}
	oldest[kind].Close(keepalive.ReasonEvicted)
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// keepConn is for http.Server.ConnContext.
func keepConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// hold holds the connection of a request, until its end: net/http sends the last of an answer
// after next has returned.
func hold(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = keepalive.Of(r.Context().Value(connKey{})).Hold()
		next.ServeHTTP(w, r)
	})
}

// Close ends the listening. Connections stay open.
func (r *room) Close() error {
	r.close.Do(func() { close(r.closed) })
	return r.Listener.Close()
}
