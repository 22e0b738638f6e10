package main

import (
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

const (
	// adminConns leaves the descriptors to the connections of the server.
	adminConns = 16

	// requestTimeout is how long a request may take to arrive.
	requestTimeout = 5 * time.Second
)

// room is a listener with room for adminConns connections. A newcomer is never refused: the
// oldest connection makes room for it at once. Connections without a whole request, and
// connections with one, have half of the room each. So silent peers take no place of a request,
// and slow readers take no place of a newcomer. A newcomer loses its place only if half a room
// of others comes before its request does.
//
// The eviction of a Keeper spares the newest connections, and connections with unread bytes.
// Here both would be ways to stay.
type room struct {
	net.Listener
	keeper   *keepalive.Keeper
	places   chan struct{} // has one for each connection
	accepted int           // connections so far; only Accept uses it
	closed   chan struct{}
	close    sync.Once
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
		return r.guard(c), nil
	default:
		r.evict()
	}
	select {
	case r.places <- struct{}{}:
		return r.guard(c), nil
	case <-r.closed:
		_ = c.Close()
		return nil, net.ErrClosed
	}
}

// guard guards a connection and numbers it. Ages by Info can't be compared: each is taken at its
// own moment.
func (r *room) guard(c net.Conn) net.Conn {
	c = r.keeper.Conn(c)
	r.accepted++
	keepalive.Of(c).SetValue(r.accepted)
	return c
}

// evict closes the oldest connection, of those with a request or without, whichever are more.
func (r *room) evict() {
	var silent, asking age
	for guard := range r.keeper.Guards() {
		switch info, ok := guard.Info(); {
		case !ok: // its place is about to be free
		case info.Held:
			asking.see(guard)
		default:
			silent.see(guard)
		}
	}
	oldest := silent.oldest
	if asking.conns > silent.conns {
		oldest = asking.oldest
	}
	oldest.Close(keepalive.ReasonEvicted)
}

// age finds the oldest of some connections.
type age struct {
	conns  int
	oldest *keepalive.Guard
	number int // of the oldest
}

func (a *age) see(guard *keepalive.Guard) {
	a.conns++
	if number, ok := guard.Value().(int); ok && (a.oldest == nil || number < a.number) {
		a.oldest, a.number = guard, number
	}
}

// newServer returns an http.Server for the room. A connection is for one request, and is held
// from the begin of the answer to its end: net/http sends the last bytes after the handler has
// returned.
func (r *room) newServer(handler http.Handler, errorLog *log.Logger) *http.Server {
	s := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			_ = httpkeepalive.Guard(req).Hold()
			handler.ServeHTTP(w, req)
		}),
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      adminTimeout,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          errorLog,
	}
	httpkeepalive.Wrap(s, r.keeper)
	s.SetKeepAlivesEnabled(false)
	return s
}

// Close ends the listening. Connections stay open.
func (r *room) Close() error {
	r.close.Do(func() { close(r.closed) })
	return r.Listener.Close()
}
