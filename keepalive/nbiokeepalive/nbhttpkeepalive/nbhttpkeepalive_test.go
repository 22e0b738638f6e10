package nbhttpkeepalive

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/lesismal/llib/std/crypto/tls"
	"github.com/lesismal/nbio/logging"
	"github.com/lesismal/nbio/nbhttp"
	"github.com/lesismal/nbio/nbhttp/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/nbiokeepalive/internal/looptest"
)

const (
	ms      = time.Millisecond
	timeout = 400 * ms
	eternal = time.Minute
)

// The tests run one after the other: nbio's buffers go from one connection to the next, unseen by
// the race detector.
func TestMain(m *testing.M) {
	logging.SetLevel(logging.LevelNone)
	testmain.Run(m, goleak.IgnoreCurrent()) // pools of nbhttp's own
}

// program is a server with notes of what it hears.
type program struct {
	*Engine
	k        *keepalive.Keeper
	closed   chan error // of connections
	sessions chan *websocket.Conn
	ended    chan error // of WebSockets
}

// run starts a server, over TLS if a certificate is given.
func run(t *testing.T, cfg keepalive.Config, certs ...tls.Certificate) *program {
	t.Helper()
	k, err := keepalive.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	p := &program{k: k, closed: make(chan error, 100), sessions: make(chan *websocket.Conn, 100), ended: make(chan error, 100)}
	upgrader := websocket.NewUpgrader()
	upgrader.KeepaliveTime = 0
	upgrader.OnMessage(func(c *websocket.Conn, kind websocket.MessageType, text []byte) { _ = c.WriteMessage(kind, text) })
	upgrader.OnOpen(func(c *websocket.Conn) { p.sessions <- c })
	upgrader.OnClose(func(_ *websocket.Conn, err error) { p.ended <- err })
	mux := http.NewServeMux()
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		for g := range k.Guards() { // not before: a busy machine may be late with the request
			if _, err := g.SetTimeout(timeout); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(3 * timeout)
		_, _ = io.WriteString(w, "done")
	})
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		_, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
		}
	})
	config := nbhttp.Config{Network: "tcp", Handler: mux, Addrs: []string{"127.0.0.1:0"}}
	if len(certs) > 0 {
		config.AddrsTLS, config.Addrs, config.TLSConfig = config.Addrs, nil, &tls.Config{Certificates: certs}
	}
	p.Engine = Wrap(nbhttp.NewEngine(config), k)
	p.OnClose(func(_ net.Conn, err error) { p.closed <- err })
	require.NoError(t, p.Start())
	looptest.Await(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), eternal)
		defer cancel()
		require.NoError(t, p.Shutdown(ctx))
		require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
	})
	return p
}

func (p *program) addr() string { return append(p.Addrs, p.AddrsTLS...)[0] }

func receive[T any](t *testing.T, from chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(eternal):
		t.Fatal("nothing comes")
	}
	return got
}

// The handler takes longer than the timeout. After its answer the connection is idle.
func TestSlowHandlerAnswersAndThenTheConnectionGoes(t *testing.T) {
	p := run(t, keepalive.Config{Timeout: eternal, Tick: 10 * ms})
	client := http.Client{Transport: &http.Transport{}, Timeout: eternal}
	defer client.CloseIdleConnections()
	got, err := client.Get("http://" + p.addr() + "/slow")
	require.NoError(t, err)
	body, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	require.Equal(t, "done", string(body))
	require.ErrorIs(t, receive(t, p.closed), keepalive.ErrIdleTimeout)
	require.EqualValues(t, 1, p.k.Stats().Opened)
}

func TestWebSocketLivesUntilItIsSilent(t *testing.T) {
	cert, _ := certtest.New(t)
	own := tls.Certificate{Certificate: cert.Certificate, PrivateKey: cert.PrivateKey}
	for scheme, certs := range map[string][]tls.Certificate{"ws": nil, "wss": {own}} {
		t.Run(scheme, func(t *testing.T) {
			p := run(t, keepalive.Config{Timeout: eternal}, certs...)
			client := nbhttp.NewEngine(nbhttp.Config{Name: "client"})
			require.NoError(t, client.Start())
			looptest.Await(t)
			defer client.Stop()
			answers := make(chan string, 100)
			peer := websocket.NewUpgrader()
			peer.OnMessage(func(_ *websocket.Conn, _ websocket.MessageType, text []byte) { answers <- string(text) })
			d := websocket.Dialer{Engine: client, Upgrader: peer, DialTimeout: eternal, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			c, _, err := d.Dial(scheme+"://"+p.addr()+"/ws", nil)
			require.NoError(t, err)
			defer c.Close()
			session := receive(t, p.sessions)
			g := keepalive.Of(session)
			require.NotNil(t, g)
			last := time.Now()
			_, err = g.SetTimeout(timeout)
			require.NoError(t, err)
			for begun := time.Now(); time.Since(begun) < 3*timeout; time.Sleep(timeout / 8) {
				before := last
				last = time.Now()
				_ = c.WriteMessage(websocket.TextMessage, []byte("beat")) // it may be closed
				select {
				case got := <-answers:
					require.Equal(t, "beat", got)
				case <-p.ended:
					require.Greater(t, time.Since(before), timeout, "a living peer was closed")
					return // this machine is too slow
				case <-time.After(eternal):
					require.FailNow(t, "neither an answer nor an end")
				}
			}
			require.ErrorIs(t, receive(t, p.ended), keepalive.ErrIdleTimeout)
			require.GreaterOrEqual(t, time.Since(last), timeout)
			require.ErrorIs(t, receive(t, p.closed), keepalive.ErrIdleTimeout)
			require.False(t, g.Touch())
			require.Eventually(t, func() bool { return keepalive.Of(session) == nil }, eternal, ms)
		})
	}
}

func TestRefusedConnectionEndsWithItsReason(t *testing.T) {
	p := run(t, keepalive.Config{Timeout: eternal, Room: keepalive.Room{MaxConns: 1}})
	first, err := net.Dial("tcp", p.addr())
	require.NoError(t, err)
	defer first.Close()
	require.Eventually(t, func() bool { return p.k.Len() == 1 }, eternal, ms)
	client := http.Client{Transport: &http.Transport{}, Timeout: eternal}
	defer client.CloseIdleConnections()
	_, err = client.Get("http://" + p.addr() + "/slow")
	require.Error(t, err)
	for range p.k.Stats().RefusedFull { // net/http may try again
		require.ErrorIs(t, receive(t, p.closed), keepalive.ReasonFull)
	}
}

func TestWrapNeedsBoth(t *testing.T) {
	const want = "nbhttpkeepalive: Wrap needs an engine and a Keeper from keepalive.New"
	require.PanicsWithValue(t, want, func() { Wrap(nil, nil) })
	require.PanicsWithValue(t, want, func() { Wrap(new(nbhttp.Engine), new(keepalive.Keeper)) })
}
