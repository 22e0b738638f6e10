package httpkeepalive

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// connection is a connection of the server's.
type connection struct {
	conn   net.Conn // as the server knows it
	guard  *keepalive.Guard
	ending chan struct{} // closed when it is to end between two requests

	mu       sync.Mutex
	handlers int  // not waiting for the peer
	left     bool // it is not the server's any more
	h2c      bool // if it leaves the server now, h2c serves it
	active   bool // by the server, which has read a request
	asked    bool // a handler was called
	http1    bool // its last request was of HTTP/1; before the first one, that may be
	bare     bool // its request is of HTTP/1, without a body
	served   int  // by h2c: more than 0 while there are requests
	held     bool
}

func newConnection(conn net.Conn, g *keepalive.Guard) *connection {
	c := &connection{conn: conn, guard: g, ending: make(chan struct{})}
	b := g.Binding()
	var closeLayers func() error
	if c.http1 = b.Conn() == any(conn); !c.http1 { // there may be a handshake, or a PROXY header
		closeLayers = conn.Close
	}
	b.Exchanges(func() { close(c.ending) }, closeLayers)
	b.Begins(c.http1)
	return c
}

// isEnding reports whether the connection is to end between two requests.
func (c *connection) isEnding() bool {
	select {
	case <-c.ending:
		return true
	default:
		return false
	}
}

// busy adds n to the handlers not waiting for the peer.
func (c *connection) busy(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers += n
	if n > 0 && !c.left {
		c.guard.Binding().CountBacklog(true) // the server writes the end of the response after the handler
	}
	c.hold()
}

// exchange says whether requests are under way: from their headers to the last bytes of their responses.
// h2c says that there are requests in the beginning of each connection, and then that there are none. It also says so
// during the first request, if that was one of HTTP/1.1.
func (c *connection) exchange(underWay bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.guard.Binding()
	if c.left && c.h2c {
		if underWay {
			c.served++
			b.CountBacklog(true)
		} else {
			c.served--
		}
		underWay = c.served > 0
		c.hold()
	}
	c.active = underWay
	c.guess()
	switch {
	case !underWay:
		if !c.bare { // what was read after the header was the body
			b.Exchange(true)
		}
		c.bare = false
		b.Begins(c.http1 && !c.left)
		b.Exchange(false)
	case !c.http1 || c.left: // otherwise request says so
		b.Exchange(true)
	}
}

// guess looks at the protocol before the first call of a handler. Without TLS, a connection of HTTP/2 is idle before its
// first request. mu must be held.
func (c *connection) guess() {
	if c.asked {
		return
	}
	if over, ok := c.conn.(*tls.Conn); ok {
		c.http1 = over.ConnectionState().NegotiatedProtocol != "h2"
	} else if !c.active {
		c.http1 = false
	}
	c.guard.Binding().Begins(c.http1 && !c.left)
}

// request notes the call of the handler for a request. It begins an exchange of HTTP/1: before that, the server drops the
// request if it is told to shut down. If the response will say that the connection ends, no other one begins.
func (c *connection) request(r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.http1 = true, r.ProtoMajor == 1
	c.bare = c.http1 && (r.Body == nil || r.Body == http.NoBody)
	if c.active && !c.left {
		c.guard.Binding().Exchange(true)
		c.guard.Binding().Begins(c.http1 && !c.isEnding())
	}
}

// hijacked takes the connection away from the server. It reports whether h2c serves it now.
func (c *connection) hijacked() (h2c bool) {
	c.mu.Lock()
	h2c = c.h2c
	c.mu.Unlock()
	if !h2c {
		c.guard.Binding().Exchanges(nil, nil)
	}
	c.leave()
	return h2c
}

// setH2C reports whether the connection is not the server's any more.
func (c *connection) setH2C(h2c bool) (left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.h2c, c.served = h2c, 0
	c.hold()
	return c.left
}

// leave takes the connection away from the server.
func (c *connection) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.served = true, 0
	c.guard.Binding().CountBacklog(false)
	c.hold()
}

// hold holds the connection, or releases it. mu must be held.
func (c *connection) hold() {
	want := c.handlers > 0 && !c.left || c.served > 0
	switch {
	case want && !c.held:
		c.guard.Binding().Hold(1)
	case !want && c.held:
		c.guard.Binding().Hold(-1)
	}
	c.held = want
}

// serve serves a request. If the connection is to end, the response says so. It does so with its header: the handler
// may set another Connection header before, or take the connection over with one.
func (c *connection) serve(rw http.ResponseWriter, r *http.Request, next http.Handler, k *keepalive.Keeper) {
	if c.isEnding() || k.Config().Age.Max > 0 { // otherwise http.MaxBytesReader would not know the response
		rw = c.announcing(rw)
	}
	next.ServeHTTP(rw, r)
	if c.isEnding() {
		sayClose(rw) // unless its header has left
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
