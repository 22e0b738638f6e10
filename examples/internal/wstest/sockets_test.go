package wstest

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	gorilla "github.com/gorilla/websocket"
	"github.com/lxzan/gws"
	"github.com/olahol/melody"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/wskeepalive"
)

// mostMessage is more than any message of these tests.
const mostMessage = 32 << 20

// socket is what a handler does with a WebSocket of any library.
type socket interface {
	read() (message []byte, err error)
	write(message []byte) error
}

// upgrade is the part of the handler under test. Without a socket it has answered.
func (v variant) upgrade(t *testing.T, w http.ResponseWriter, r *http.Request) (s socket, done func()) {
	guard := httpkeepalive.Guard(r)
	if v.hijack {
		w = wskeepalive.Hijacker(guard, w)
	}
	switch v.library {
	case "gorilla":
		ws, err := (&gorilla.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return nil, nil
		}
		if !v.hijack {
			require.NoError(t, wskeepalive.Gorilla(guard, ws))
		}
		return &gorillaSocket{Conn: ws}, func() { ws.Close() }
	case "coder":
		ws, err := coder.Accept(w, r, nil)
		if err != nil {
			return nil, nil
		}
		if !v.hijack {
			require.NoError(t, wskeepalive.Coder(guard, ws))
		}
		ws.SetReadLimit(mostMessage)
		return &coderSocket{ws}, func() { _ = ws.CloseNow() }
	case "gobwas":
		conn, _, _, err := ws.UpgradeHTTP(r, w)
		if err != nil {
			return nil, nil
		}
		return &gobwasSocket{Conn: conn}, func() { conn.Close() }
	case "gws":
		return newGws(w, r)
	}
	return newMelody(w, r)
}

type gorillaSocket struct {
	*gorilla.Conn
	mu sync.Mutex // one writer at a time
}

func (s *gorillaSocket) read() ([]byte, error) {
	_, message, err := s.ReadMessage()
	return message, err
}

func (s *gorillaSocket) write(message []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.WriteMessage(gorilla.BinaryMessage, message)
}

type coderSocket struct{ *coder.Conn }

func (s *coderSocket) read() ([]byte, error) {
	_, message, err := s.Read(context.Background())
	return message, err
}

func (s *coderSocket) write(message []byte) error {
	return s.Write(context.Background(), coder.MessageBinary, message)
}

type gobwasSocket struct {
	net.Conn
	mu sync.Mutex // one writer at a time: a reader answers pings
}

func (s *gobwasSocket) read() ([]byte, error) {
	message, _, err := wsutil.ReadClientData(struct {
		io.Reader
		io.Writer
	}{s.Conn, answers{s}})
	return message, err
}

func (s *gobwasSocket) write(message []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return wsutil.WriteServerBinary(s.Conn, message)
}

// answers writes a reader's frames: each is one Write.
type answers struct{ s *gobwasSocket }

func (a answers) Write(frame []byte) (int, error) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return a.s.Write(frame)
}

// events is the socket of a library that calls functions.
type events struct {
	messages chan []byte
	over     chan struct{}
	err      error // set before over is closed
	send     func(message []byte) error
}

func newEvents() *events { return &events{messages: make(chan []byte), over: make(chan struct{})} }

func (e *events) read() ([]byte, error) {
	select {
	case message := <-e.messages:
		return message, nil
	case <-e.over:
		return nil, e.err
	}
}

func (e *events) write(message []byte) error { return e.send(message) }

// got hands a message to read, which may never be called again.
func (e *events) got(message []byte, left <-chan struct{}) {
	select {
	case e.messages <- message:
	case <-left:
	}
}

// gwsEvents are the events of one socket.
type gwsEvents struct {
	gws.BuiltinEventHandler
	*events
	left chan struct{} // closed when the handler is over
}

func (g *gwsEvents) OnMessage(_ *gws.Conn, m *gws.Message) {
	defer m.Close()
	g.got(append([]byte(nil), m.Bytes()...), g.left)
}

func (g *gwsEvents) OnClose(_ *gws.Conn, err error) { g.err = err; close(g.over) }

func newGws(w http.ResponseWriter, r *http.Request) (socket, func()) {
	g := &gwsEvents{events: newEvents(), left: make(chan struct{})}
	ws, err := gws.NewUpgrader(g, &gws.ServerOption{WriteMaxPayloadSize: mostMessage}).Upgrade(w, r)
	if err != nil {
		return nil, nil
	}
	g.send = func(message []byte) error { return ws.WriteMessage(gws.OpcodeBinary, message) }
	go ws.ReadLoop()
	return g.events, func() { close(g.left); ws.NetConn().Close(); <-g.over }
}

func newMelody(w http.ResponseWriter, r *http.Request) (socket, func()) {
	e, left, connected := newEvents(), make(chan struct{}), make(chan *melody.Session, 1)
	m := melody.New()
	m.Config.PingPeriod, m.Config.PongWait = time.Hour, time.Hour // the Keeper's
	m.Config.WriteWait = exampletest.Late
	m.Config.MaxMessageSize = mostMessage
	m.HandleConnect(func(s *melody.Session) { connected <- s })
	m.HandleMessageBinary(func(_ *melody.Session, message []byte) { e.got(message, left) })
	m.HandleMessage(func(_ *melody.Session, message []byte) { e.got(message, left) })
	var first sync.Once
	m.HandleError(func(_ *melody.Session, err error) { first.Do(func() { e.err = err }) }) // of the reader, or of the writer
	refused := make(chan error, 1)
	go func() {
		refused <- m.HandleRequest(w, r)
		first.Do(func() {}) // the writer may be late
		close(e.over)
	}()
	select {
	case s := <-connected:
		e.send = s.WriteBinary
		return e, func() { close(left); s.WebsocketConnection().Close(); <-e.over }
	case <-refused:
		return nil, nil
	}
}
