package httpkeepalive_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// The server is a literal in most programs, but not in all.
func TestFieldsOfTheServerMayBeSetAfterWrap(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(srv *http.Server){
		"none":      func(*http.Server) {},
		"ConnState": func(srv *http.Server) { srv.ConnState = func(net.Conn, http.ConnState) {} },
		"ConnContext": func(srv *http.Server) {
			srv.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return ctx }
		},
		"BaseContext": func(srv *http.Server) {
			srv.BaseContext = func(net.Listener) context.Context { return context.Background() }
		},
		"a middleware": func(srv *http.Server) { next := srv.Handler; srv.Handler = http.HandlerFunc(next.ServeHTTP) },
		"a second Wrap": func(srv *http.Server) {
			other, _ := keepalive.New(keepalive.Config{})
			httpkeepalive.Wrap(srv, other)
			_ = other.Close()
		},
		"the same again": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := make(chan bool, 1)
			handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				info, _ := httpkeepalive.Guard(r).Info()
				held <- info.Held
			})
			srv := &http.Server{ErrorLog: log.New(io.Discard, "", 0)}
			k, err := keepalive.New(keepalive.Config{Timeout: time.Minute})
			require.NoError(t, err)
			defer k.Close()
			httpkeepalive.Wrap(srv, k)
			srv.Handler = handler
			if set == nil {
				httpkeepalive.Wrap(srv, k)
			} else {
				set(srv)
			}
			require.True(t, ask(t, srv, k, held))
		})
	}
}

// ask serves one request, and returns what its handler has told.
func ask(t *testing.T, srv *http.Server, k *keepalive.Keeper, told <-chan bool) bool {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(k.Listener(ln)) }()
	defer func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	}()
	conn, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	_, err = http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	return <-told
}

// Tests do so: the address of the server is a part of the handler.
func TestTheHandlerMayBeSetWhileTheServerWaits(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"http", "https"} {
		k, err := keepalive.New(keepalive.Config{Timeout: time.Minute})
		require.NoError(t, err)
		defer k.Close()
		certificate, _ := certtest.New(t)
		srv := &http.Server{
			ErrorLog:  log.New(io.Discard, "", 0),
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}},
		}
		httpkeepalive.Wrap(srv, k)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		serves := make(chan struct{})
		base := srv.BaseContext
		srv.BaseContext = func(ln net.Listener) context.Context { defer close(serves); return base(ln) }
		if protocol == "https" {
			go srv.ServeTLS(k.Listener(ln), "", "")
		} else {
			go srv.Serve(k.Listener(ln))
		}
		<-serves
		check, err := net.Dial("tcp", ln.Addr().String()) // a load balancer looks whether somebody is there
		require.NoError(t, err)
		require.NoError(t, check.Close())
		require.Eventually(t, func() bool { s := k.Stats(); return s.Opened == 1 && s.Conns == 0 }, time.Minute, time.Millisecond)
		held := make(chan bool, 1)
		srv.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			info, _ := httpkeepalive.Guard(r).Info()
			held <- info.Held
		})
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		res, err := (&http.Client{Transport: transport}).Get(protocol + "://" + ln.Addr().String())
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.True(t, <-held, protocol)
		transport.CloseIdleConnections()
		require.NoError(t, srv.Close())
	}
}

// Nobody can learn of a connection then.
func TestAServerWithoutTheFunctionsOfWrapIsWarned(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	told := make(chan bool, 1)
	srv := &http.Server{ErrorLog: log.New(&out, "", 0), Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		told <- httpkeepalive.Guard(r).Touch() || httpkeepalive.Ending(r) != nil
	})}
	k, err := keepalive.New(keepalive.Config{Timeout: time.Minute})
	require.NoError(t, err)
	defer k.Close()
	httpkeepalive.Wrap(srv, k)
	srv.BaseContext = func(net.Listener) context.Context { return context.Background() }
	srv.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return ctx }
	require.False(t, ask(t, srv, k, told))
	require.Equal(t, 1, strings.Count(out.String(), "BaseContext and ConnContext were set after Wrap"), out.String())
}

func TestNilIsNoServerAndNoKeeper(t *testing.T) {
	k, err := keepalive.New(keepalive.Config{})
	require.NoError(t, err)
	defer k.Close()
	require.PanicsWithValue(t, "httpkeepalive: Wrap needs a server and a Keeper from New", func() { httpkeepalive.Wrap(nil, k) })
	require.PanicsWithValue(t, "httpkeepalive: Wrap needs a server and a Keeper from New", func() { httpkeepalive.Wrap(new(http.Server), nil) })
	require.PanicsWithValue(t, "httpkeepalive: Wrap needs a server and a Keeper from New", func() { httpkeepalive.Wrap(new(http.Server), new(keepalive.Keeper)) })
	require.PanicsWithValue(t, "httpkeepalive: Shutdown needs a server and a Keeper from New", func() { _ = httpkeepalive.Shutdown(t.Context(), nil, k) })
	require.PanicsWithValue(t, "httpkeepalive: Shutdown needs a server and a Keeper from New", func() { _ = httpkeepalive.Shutdown(t.Context(), new(http.Server), nil) })
}

// taken is how h2c of golang.org/x/net wraps a connection with bytes that it has read already.
type taken struct {
	net.Conn
	*bufio.Reader
}

func (c *taken) Read(p []byte) (int, error) { return c.Reader.Read(p) }

// h2c takes the connection of a request over, and tells the server's ConnState of its own requests. This one does
// what that of golang.org/x/net does, see tools/conformance/h2c for the real one.
func TestAConnectionIsHeldWhileH2CServesARequest(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"from the first byte": "PRI * HTTP/2.0\r\n\r\n",
		"upgraded":            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := new(http.Server)
			held := make(chan bool, 10)
			closed := make(chan keepalive.Reason, 1)
			k, err := keepalive.New(keepalive.Config{Timeout: time.Minute, OnClose: func(_ any, reason keepalive.Reason) { closed <- reason }})
			require.NoError(t, err)
			defer k.Close()
			srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				note := func() {
					info, _ := httpkeepalive.Guard(r).Info()
					held <- info.Held
				}
				note()
				upgraded := r.ProtoMajor == 1
				for i, state := range []http.ConnState{http.StateActive, http.StateActive, http.StateIdle, http.StateIdle, http.StateActive} {
					if !upgraded && (i == 1 || i == 2) {
						continue
					}
					srv.ConnState(&taken{conn, rw.Reader}, state)
					note()
				}
				<-httpkeepalive.Ending(r)
			})
			httpkeepalive.Wrap(srv, k)
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			served := make(chan error, 1)
			go func() { served <- srv.Serve(k.Listener(ln)) }()
			conn, err := net.Dial("tcp", ln.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			fmt.Fprint(conn, header)
			want := []bool{false, true, false, true}
			if name == "upgraded" {
				want = []bool{false, true, true, true, false, true}
			}
			for _, want := range want {
				require.Equal(t, want, <-held)
			}
			require.NoError(t, httpkeepalive.Shutdown(t.Context(), srv, k))
			require.Equal(t, keepalive.ReasonDrain, <-closed, "after the request")
			require.ErrorIs(t, <-served, http.ErrServerClosed)
		})
	}
}
