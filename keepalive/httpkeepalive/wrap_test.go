package httpkeepalive_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

var (
	_ bytes.Buffer
	_ = strings.Count
)
