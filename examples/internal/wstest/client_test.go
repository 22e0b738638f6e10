package wstest

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	gorilla "github.com/gorilla/websocket"
	"github.com/lxzan/gws"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/wskeepalive"
)

// client is a client of any library.
type client struct {
	library string
	keeper  *keepalive.Keeper
	overTLS bool
}

// eachClient runs a test with each library at the same time, plain and over TLS.
func eachClient(t *testing.T, test func(t *testing.T, c client)) {
	t.Parallel()
	for _, library := range []string{"gorilla", "coder", "gobwas", "gws"} {
		for _, overTLS := range []bool{false, true} {
			t.Run(fmt.Sprintf("library=%s/tls=%v", library, overTLS), func(t *testing.T) {
				t.Parallel()
				k, err := keepalive.New(keepalive.Config{Timeout: timeout})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, k.Close()) })
				test(t, client{library, k, overTLS})
			})
		}
	}
}

// dial is for the hooks of the libraries.
func (c client) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	if c.overTLS {
		conn, err = (&tls.Dialer{Config: insecure()}).DialContext(ctx, network, addr)
	} else {
		conn, err = new(net.Dialer).DialContext(ctx, network, addr)
	}
	if err != nil {
		return nil, err
	}
	return wskeepalive.Client(c.keeper.Conn(conn))
}

// Dial is for gws.
func (c client) Dial(network, addr string) (net.Conn, error) {
	return c.dial(context.Background(), network, addr)
}

// connect returns a connected client.
func (c client) connect(t *testing.T, addr string) socket {
	ctx, url := t.Context(), "ws://"+addr // dial adds TLS
	switch c.library {
	case "gorilla":
		s, _, err := (&gorilla.Dialer{NetDialContext: c.dial}).Dial(url, nil)
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		return &gorillaSocket{Conn: s}
	case "coder":
		transport := &http.Transport{DialContext: c.dial}
		s, _, err := coder.Dial(ctx, url, &coder.DialOptions{HTTPClient: &http.Client{Transport: transport}})
		require.NoError(t, err)
		t.Cleanup(func() { s.CloseNow() })
		return &coderSocket{s}
	case "gobwas":
		conn, early, _, err := ws.Dialer{NetDial: c.dial}.Dial(ctx, url)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return gobwasClient{conn, early}
	}
	g := &gwsEvents{events: newEvents(), left: make(chan struct{})}
	s, _, err := gws.NewClient(g, &gws.ClientOption{Addr: url, NewDialer: func() (gws.Dialer, error) { return c, nil }})
	require.NoError(t, err)
	g.send = func(message []byte) error { return s.WriteMessage(gws.OpcodeBinary, message) }
	go s.ReadLoop()
	t.Cleanup(func() { close(g.left); s.NetConn().Close(); <-g.over })
	return g.events
}

type gobwasClient struct {
	net.Conn
	early *bufio.Reader // or nil
}

func (c gobwasClient) read() ([]byte, error) {
	in := io.Reader(c.Conn)
	if c.early != nil && c.early.Buffered() > 0 {
		in = c.early
	}
	message, _, err := wsutil.ReadServerData(struct {
		io.Reader
		io.Writer
	}{in, c.Conn})
	return message, err
}

func (c gobwasClient) write(message []byte) error { return wsutil.WriteClientBinary(c.Conn, message) }

// listen serves WebSockets that echo, until they are told to hang. They ping their clients, too.
func listen(t *testing.T, c client) (addr string) {
	left := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := (&gorilla.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer ws.Close()
		for {
			kind, message, err := ws.ReadMessage()
			if err != nil {
				return
			}
			if string(message) == "hang" {
				<-left
				return
			}
			if ws.WriteControl(gorilla.PingMessage, []byte("you?"), time.Now().Add(timeout)) != nil || ws.WriteMessage(kind, message) != nil {
				return
			}
		}
	}))
	if c.overTLS {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(func() { close(left); srv.Close() })
	return srv.Listener.Addr().String()
}

// A silent server is pinged. One that does not answer is gone, although its socket is open.
func TestAClientNoticesThatItsServerHangs(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		s := c.connect(t, listen(t, c))
		messages := make(chan error, 10)
		go func() {
			for {
				got, err := s.read()
				if err == nil && string(got) != "hello" {
					err = fmt.Errorf("got %q", got)
				}
				messages <- err
				if err != nil {
					return
				}
			}
		}()
		require.NoError(t, s.write([]byte("hello")))
		require.NoError(t, <-messages)
		require.Eventually(t, func() bool { return c.keeper.Stats().Probes >= 4 }, exampletest.Late, time.Millisecond, "two timeouts")
		last := time.Now()
		require.NoError(t, s.write([]byte("hello")))
		require.NoError(t, <-messages)
		require.Equal(t, 1, c.keeper.Len())
		require.NoError(t, s.write([]byte("hang")))
		exampletest.Gone(t, last, func() error {
			err := <-messages
			if c.library == "coder" { // it may say no more than that
				require.ErrorIs(t, err, net.ErrClosed)
			} else {
				require.ErrorIs(t, err, keepalive.ReasonNoAnswer)
			}
			return nil
		})
		require.Eventually(t, func() bool { return c.keeper.Stats().Closed[keepalive.ReasonNoAnswer] == 1 }, exampletest.Late, time.Millisecond)
	})
}
