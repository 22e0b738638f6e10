package httpkeepalive_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// age is the maximum age of the connections in these tests.
const age = 300 * time.Millisecond

// aging serves a handler on connections with a maximum age, over TLS or plain.
type aging struct {
	addr   string
	client *http.Client
	closed chan keepalive.Reason
}

func serveAging(t *testing.T, overTLS bool, cfg keepalive.Age, handler http.HandlerFunc) *aging {
	s := &aging{closed: make(chan keepalive.Reason, 10)}
	cfg.Max, cfg.Jitter = age, -1
	k, err := keepalive.New(keepalive.Config{
		Timeout: time.Minute, Age: cfg,
		OnClose: func(_ any, reason keepalive.Reason) { s.closed <- reason },
	})
	require.NoError(t, err)
	certificate, _ := certtest.New(t)
	srv := &http.Server{
		Handler:   handler,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	httpkeepalive.Wrap(srv, k)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() {
		if overTLS {
			served <- srv.ServeTLS(k.Listener(ln), "", "")
		} else {
			served <- srv.Serve(k.Listener(ln))
		}
	}()
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	s.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		require.NoError(t, k.Close())
	})
	return s
}

func (s *aging) dial(t *testing.T) (net.Conn, *bufio.Reader) {
	conn, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(soon)))
	return conn, bufio.NewReader(conn)
}

func (s *aging) requireEnd(t *testing.T, want ...keepalive.Reason) {
	select {
	case reason := <-s.closed:
		require.Contains(t, want, reason)
	case <-time.After(soon):
		require.Fail(t, "the connection is not closed")
	}
}

// The age comes while the handler works, and while it waits for the body.
func TestAnAgeDoesNotCutARequest(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"while it works": "", "while it reads": "x"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveAging(t, false, keepalive.Age{}, func(w http.ResponseWriter, r *http.Request) {
				if body == "" {
					time.Sleep(2 * age)
				}
				n, err := io.Copy(io.Discard, r.Body)
				fmt.Fprint(w, n, err)
			})
			conn, in := s.dial(t)
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", len(body))
			time.Sleep(2 * age)
			_, err := io.WriteString(conn, body)
			require.NoError(t, err)
			res, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			answer, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(len(body), nil), string(answer))
			require.True(t, res.Close, "it says Connection: close")
			_, err = in.ReadByte()
			require.ErrorIs(t, err, io.EOF)
			s.requireEnd(t, keepalive.ReasonMaxAge, keepalive.ReasonPeer)
		})
	}
}

var _ = context.Background
