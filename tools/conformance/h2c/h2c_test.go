//go:build conformance

// Package h2c serves HTTP/2 without TLS, by package h2c of golang.org/x/net and by net/http itself, on
// guarded connections.
package h2c

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c" //nolint:staticcheck // programs still serve with it

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

const (
	timeout  = time.Second
	patience = time.Minute
)

// server serves HTTP/2 without TLS.
type server struct {
	addr   string
	closed chan keepalive.Reason
}

// servers are those under test.
var servers = map[string]func(srv *http.Server, handler http.Handler){
	"h2c": func(srv *http.Server, handler http.Handler) { srv.Handler = h2c.NewHandler(handler, new(http2.Server)) }, //nolint:staticcheck // see the import
	"net/http": func(srv *http.Server, handler http.Handler) {
		srv.Handler, srv.Protocols = handler, new(http.Protocols)
		srv.Protocols.SetUnencryptedHTTP2(true)
	},
}

func serve(t *testing.T, setup func(srv *http.Server, handler http.Handler), cfg keepalive.Config) *server {
	s := &server{closed: make(chan keepalive.Reason, 10)}
	cfg.OnClose = func(_ any, reason keepalive.Reason) { s.closed <- reason }
	k, err := keepalive.New(cfg)
	require.NoError(t, err)
	srv := new(http.Server)
	setup(srv, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := time.ParseDuration(r.FormValue("for"))
		time.Sleep(d)
		fmt.Fprint(w, "done by ", r.Proto, " ", httpkeepalive.Guard(r) != nil)
	}))
	httpkeepalive.Wrap(srv, k)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(k.Listener(ln)) }()
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		require.NoError(t, k.Close())
	})
	return s
}

// client speaks HTTP/2 from the first byte.
func client(t *testing.T) *http.Client {
	transport := &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) { //nolint:staticcheck // as its users have it
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	t.Cleanup(transport.CloseIdleConnections) //nolint:staticcheck // see above
	return &http.Client{Transport: transport, Timeout: patience}
}

func (s *server) get(t *testing.T, client *http.Client, d time.Duration) string {
	res, err := client.Get("http://" + s.addr + "/?for=" + d.String())
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(body)
}

func (s *server) requireEnd(t *testing.T, want keepalive.Reason) {
	select {
	case reason := <-s.closed:
		require.Equal(t, want, reason)
	case <-time.After(patience):
		require.Fail(t, "the connection is not closed")
	}
}

// A connection is held while a request is served, and idle between two.
func TestARequestMayTakeLongerThanTheTimeout(t *testing.T) {
	for name, setup := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, setup, keepalive.Config{Timeout: timeout})
			c := client(t)
			for range 2 {
				require.Equal(t, "done by HTTP/2.0 true", s.get(t, c, 2*timeout))
			}
			s.requireEnd(t, keepalive.ReasonIdle)
		})
	}
}

// The other way to HTTP/2: a request of HTTP/1.1 is the first one of HTTP/2.
func TestAnUpgradedRequestMayTakeLongerThanTheTimeout(t *testing.T) {
	t.Parallel()
	s := serve(t, servers["h2c"], keepalive.Config{Timeout: timeout})
	conn, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	fmt.Fprintf(conn, "GET /?for=%v HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", 2*timeout)
	in := bufio.NewReader(conn)
	for line := ""; line != "\r\n"; {
		line, err = in.ReadString('\n')
		require.NoError(t, err)
	}
	_, err = io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	framer := http2.NewFramer(conn, in)
	require.NoError(t, framer.WriteSettings())
	for body := ""; body != "done by HTTP/1.1 true"; {
		frame, err := framer.ReadFrame()
		require.NoError(t, err)
		if data, ok := frame.(*http2.DataFrame); ok {
			body += string(data.Data())
		}
	}
	s.requireEnd(t, keepalive.ReasonIdle)
}
