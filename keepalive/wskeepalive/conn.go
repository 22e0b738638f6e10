package wskeepalive

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Hijacker returns a ResponseWriter for the handshake of a WebSocket, by any library that hijacks the connection of a
// request. g is the guard of that connection: httpkeepalive.Guard(r).
//
//	conn, _, _, err := ws.UpgradeHTTP(r, wskeepalive.Hijacker(guard, w))        // gobwas/ws
//	socket, err := upgrader.Upgrade(wskeepalive.Hijacker(guard, w), r)          // lxzan/gws
//	err := m.HandleRequest(wskeepalive.Hijacker(guard, w), r)                   // olahol/melody
//
// The library gets a connection as from [Server]. Nothing else changes for it: the bytes read ahead are in the
// bufio.ReadWriter of the hijack. Hijack returns keepalive.ErrNotGuarded if the connection is not guarded, or not
// any more. Most libraries then answer 500. Other methods are those of w.
func Hijacker(g *keepalive.Guard, w http.ResponseWriter) http.ResponseWriter {
	return &hijacker{ResponseWriter: w, guard: g}
}

type hijacker struct {
	http.ResponseWriter
	guard    *keepalive.Guard
	switched bool // the response is written: coder/websocket does so before the hijack
}

// Unwrap is for http.ResponseController.
func (h *hijacker) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *hijacker) WriteHeader(status int) {
	h.switched = h.switched || status == http.StatusSwitchingProtocols
	h.ResponseWriter.WriteHeader(status)
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if _, ok := h.guard.Info(); !ok { // while the library can still answer
		return nil, nil, keepalive.ErrNotGuarded
	}
	inner, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c := newConn(inner, h.guard, false)
	if h.switched {
		c.out.mode = inHeader
		c.open.Store(true)
	}
	early, _ := rw.Peek(rw.Reader.Buffered())
	c.early = append(c.early, early...)
	rw.Reader.Reset(c)
	_, _ = rw.Peek(len(early)) // they are where the library looks for them
	rw.Writer.Reset(c)
	if err := c.upgrade(); err != nil {
		_ = inner.Close()
		return nil, nil, err
	}
	return c, rw, nil
}

// Server returns a connection for the server's side of a WebSocket, of any library: call it before the response of the
// handshake is written. c must be guarded, or be a *tls.Conn above a guarded connection.
//
// The connection hears what the program reads: a pong, a ping and a whole message are life, and the program need not
// call Touch. Between two frames of the program's it sends the pings and the close frame. So these never come in the
// middle of a frame, and need no lock of the program's. The program's own frames do, if several goroutines write
// them, as always with that library: the answers that a reader writes count, too.
//
// After the close frame a Write returns the keepalive.Reason. The methods Read and Write are for one caller each at a
// time, and all others for any. NetConn returns c.
//
// Server returns keepalive.ErrNotGuarded if c is not guarded, or not any more. Then c stays open. It returns a
// connection of this package as it is.
func Server(c net.Conn) (net.Conn, error) { return wrap(c, false) }

// Client returns a connection for the client's side, as [Server] does for the server's: call it before the handshake,
// such as in a function that dials for the library.
//
//	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
//		conn, err := dialer.DialContext(ctx, network, addr)
//		if err != nil {
//			return nil, err
//		}
//		return wskeepalive.Client(k.Conn(conn))
//	}
//
// It is the NetDial of a Dialer of gobwas/ws, the NetDialContext of one of gorilla/websocket, and the DialContext of the
// http.Transport for coder/websocket; a Dialer of lxzan/gws calls it, see its ClientOption.NewDialer. With TLS, dialer
// is a tls.Dialer: what Client gets is what the frames are written to. Then it is the NetDialTLSContext or
// DialTLSContext, and gobwas/ws and lxzan/gws get a URL with ws and not wss, or they encrypt twice.
//
// No ping is sent before the server has accepted the handshake, which must be complete within keepalive.Config.Timeout.
func Client(c net.Conn) (net.Conn, error) { return wrap(c, true) }

func wrap(inner net.Conn, client bool) (net.Conn, error) {
	if c, ok := inner.(*conn); ok {
		return c, nil
	}
	g := keepalive.Of(inner)
	if g == nil {
		return nil, fmt.Errorf("%w: %T", keepalive.ErrNotGuarded, inner)
	}
	c := newConn(inner, g, client)
	if err := c.upgrade(); err != nil {
		return nil, err
	}
	return c, nil
}

// CloseFrame returns the server's close frame for a reason, with its status and its name: for a program with frames of
// its own, in keepalive.Closing.Farewell.
func CloseFrame(reason keepalive.Reason) []byte { return closeFrame(reason, false) }

// conn is a connection with the frames of a WebSocket.
type conn struct {
	net.Conn
	guard  *keepalive.Guard
	client bool

	open    atomic.Bool // the handshake is over
	pinging atomic.Bool // a ping waits for its turn

	// The reader's.
	early []byte // bytes read ahead by others
	in    frames

	// turn has room for one that writes, and guards the fields below. It is no Mutex, since a write may take long.
	turn   chan struct{}
	out    frames
	ping   bool             // one is due
	bye    keepalive.Reason // of the close frame that is due or has left, or 0
	parted chan struct{}    // closed when the close frame has left
	unsent []byte           // the rest of a frame of this package: it comes before anything else
	ended  bool             // a close frame has left: the peer expects no more frames
	shut   bool             // the program has no more frames, either: the close frame is one of this package

	deadlines sync.Mutex // guards the next one, and orders its calls
	deadline  time.Time  // of writes, the program's
	alone     bool       // a write of this package is under way outside the program's
	waiting   int        // Writes of the program's behind it
}

func newConn(inner net.Conn, g *keepalive.Guard, client bool) *conn {
	return &conn{Conn: inner, guard: g, client: client, turn: make(chan struct{}, 1)}
}

func (c *conn) upgrade() error { return c.guard.Binding().Upgrade(c.probe, c.farewell) }

// NetConn returns the connection inside. It is how keepalive.Of finds the guard.
func (c *conn) NetConn() net.Conn { return c.Conn }

func (c *conn) Read(p []byte) (n int, err error) {
	if len(c.early) > 0 {
		n = copy(p, c.early)
		c.early = c.early[n:]
	} else {
		n, err = c.Conn.Read(p)
	}
	c.heard(p[:n])
	return n, err
}

// heard tells the Keeper of life.
func (c *conn) heard(p []byte) {
	for len(p) > 0 {
		n, ended := c.in.take(p)
		p = p[n:]
		if !ended {
			continue
		}
		switch first := c.in.first; {
		case first == response && c.client:
			c.open.Store(true)
			c.guard.Touch()
		case first&opcodes == opPong:
			c.guard.Pong()
		case first&opcodes == opPing, first&bitControl == 0 && first&bitFin != 0:
			c.guard.Touch()
		}
	}
}

func (c *conn) Write(p []byte) (n int, err error) {
	c.await()
	defer c.leave()
	for {
		if err := c.writeOwn(); err != nil {
			return n, err
		}
		if c.shut {
			return n, c.bye
		}
		next := p[n:]
		if c.ping || c.bye != 0 { // they come behind the frame under way
			under := c.out
			k, _ := under.take(next)
			next = next[:k]
		}
		k, err := c.Conn.Write(next)
		c.wrote(next[:k])
		if n += k; err != nil {
			return n, err
		}
		if n == len(p) {
			_ = c.writeOwn() // the next Write returns the error
			return n, nil
		}
	}
}

// wrote follows the program's frames. The caller has the turn.
func (c *conn) wrote(p []byte) {
	for len(p) > 0 {
		n, ended := c.out.take(p)
		p = p[n:]
		switch {
		case ended && c.out.first&opcodes == opClose && c.out.first != response:
			c.end()
		case !c.client && (c.out.mode == inHeader || c.out.mode == inPayload) && !c.open.Load():
			c.open.Store(true)
		}
	}
}

// writeOwn writes the frames of this package that are due, if they may come here.
func (c *conn) writeOwn() error {
	if len(c.unsent) == 0 && c.out.between() && c.open.Load() && !c.ended {
		if c.ping {
			c.unsent = append(c.unsent, pingFrame(c.client)...)
		}
		if c.bye != 0 {
			c.unsent, c.shut = append(c.unsent, closeFrame(c.bye, c.client)...), true
		}
	}
	if len(c.unsent) == 0 {
		return nil
	}
	c.ping = false
	n, err := c.Conn.Write(c.unsent)
	if c.unsent = c.unsent[n:]; c.shut && (err != nil || len(c.unsent) == 0) {
		c.end()
	}
	return err
}

// end says that nothing more of this package follows. The caller has the turn.
func (c *conn) end() {
	c.ended, c.ping = true, false
	if c.parted != nil {
		close(c.parted)
		c.parted = nil
	}
}

// probe sends a ping, or leaves it to the Write that ends the handshake, or a frame.
func (c *conn) probe() error {
	if !c.pinging.CompareAndSwap(false, true) {
		return nil
	}
	go func() { // it may have to wait for a message being written
		defer c.pinging.Store(false)
		c.turn <- struct{}{}
		defer c.leave()
		c.ping = !c.ended
		c.writeAlone()
	}()
	return nil
}

// farewell sends the close frame, and waits until it has left.
func (c *conn) farewell(why net.Error, deadline time.Time) {
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	select {
	case c.turn <- struct{}{}:
	case <-late.C:
		return
	}
	parted := make(chan struct{})
	if c.ended || c.client && !c.open.Load() { // the server would wait for a request
		close(parted)
	} else {
		c.bye, c.parted = why.(keepalive.Reason), parted
		c.writeAlone()
	}
	c.leave()
	select {
	case <-parted:
	case <-late.C:
	}
}

// leave gives the turn to another one.
func (c *conn) leave() { <-c.turn }

// await waits for the turn of a Write. A ping under way is in its way, and must not outlast the program's deadline.
func (c *conn) await() {
	select {
	case c.turn <- struct{}{}:
		return
	default:
	}
	c.changeDeadline(func() { c.waiting++ })
	c.turn <- struct{}{}
	c.changeDeadline(func() { c.waiting-- })
}

// writeAlone is writeOwn outside a Write of the program's. The deadline of its last Write is not for this, unless
// another one waits. The caller has the turn.
func (c *conn) writeAlone() {
	c.changeDeadline(func() { c.alone = true })
	_ = c.writeOwn() // the next Write returns the error
	c.changeDeadline(func() { c.alone = false })
}

// changeDeadline changes what the deadline follows from.
func (c *conn) changeDeadline(change func()) {
	c.deadlines.Lock()
	defer c.deadlines.Unlock()
	change()
	switch {
	case c.deadline.IsZero():
	case c.alone && c.waiting == 0:
		_ = c.Conn.SetWriteDeadline(time.Time{})
	default:
		_ = c.Conn.SetWriteDeadline(c.deadline)
	}
}

func (c *conn) SetDeadline(t time.Time) error {
	c.deadlines.Lock()
	defer c.deadlines.Unlock()
	c.deadline = t
	return c.Conn.SetDeadline(t)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.deadlines.Lock()
	defer c.deadlines.Unlock()
	c.deadline = t
	return c.Conn.SetWriteDeadline(t)
}

func pingFrame(client bool) []byte { return frame(opPing, nil, client) }

func closeFrame(reason keepalive.Reason, client bool) []byte {
	return frame(opClose, goodbye(reason), client)
}

// frame returns a control frame. Its payload is at most 125 bytes long.
func frame(opcode byte, payload []byte, client bool) []byte {
	f := []byte{bitFin | opcode, byte(len(payload))}
	if !client {
		return append(f, payload...)
	}
	var mask [4]byte
	_, _ = rand.Read(mask[:]) // it never fails
	f[1] |= bitMask
	f = append(f, mask[:]...)
	for i, b := range payload {
		f = append(f, b^mask[i%4])
	}
	return f
}
