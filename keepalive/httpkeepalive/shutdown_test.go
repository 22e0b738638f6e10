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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

// ending is a server to shut down, with a plain listener and one for TLS.
type ending struct {
	k          *keepalive.Keeper
	srv        *http.Server
	plain, tls string
	begun      chan struct{} // /work is called
	finish     chan struct{} // it may end
	served     chan error

	mu   sync.Mutex
	ends map[keepalive.Reason]int
}

func serveEnding(t *testing.T, set ...func(*keepalive.Config)) *ending {
	e := &ending{begun: make(chan struct{}, 10), finish: make(chan struct{}), served: make(chan error, 2), ends: map[keepalive.Reason]int{}}
	cfg := keepalive.Config{
		Timeout: time.Minute,
		Closing: keepalive.Closing{Farewell: func(any, keepalive.Reason) []byte { return []byte("bye\n") }, Timeout: soon},
		OnClose: func(_ any, reason keepalive.Reason) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.ends[reason]++
		},
	}
	for _, set := range set {
		set(&cfg)
	}
	var err error
	e.k, err = keepalive.New(cfg)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/work", func(w http.ResponseWriter, r *http.Request) {
		e.begun <- struct{}{}
		select {
		case <-e.finish:
			fmt.Fprint(w, "done")
		case <-httpkeepalive.Guard(r).Context().Done():
		}
	})
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-httpkeepalive.Ending(r)
		fmt.Fprint(w, "the end\n")
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprintln(conn, "hello")
	})
	mux.HandleFunc("/handshake", func(w http.ResponseWriter, r *http.Request) {
		e.begun <- struct{}{}
		<-httpkeepalive.Ending(r) // it looks for the user of a session, say
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		time.Sleep(20 * time.Millisecond)
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: a\r\n\r\n")
	})
	certificate, _ := certtest.New(t)
	e.srv = &http.Server{
		Handler:   mux,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	httpkeepalive.Wrap(e.srv, e.k)
	plain, overTLS := e.listen(t), e.listen(t)
	e.plain, e.tls = plain.Addr().String(), overTLS.Addr().String()
	go func() { e.served <- e.srv.Serve(plain) }()
	go func() { e.served <- e.srv.ServeTLS(overTLS, "", "") }()
	t.Cleanup(func() {
		require.ErrorIs(t, <-e.served, http.ErrServerClosed)
		require.ErrorIs(t, <-e.served, http.ErrServerClosed)
		require.NoError(t, e.k.Close())
	})
	return e
}

func (e *ending) listen(t *testing.T) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return e.k.Listener(ln)
}

// peer is the end of a connection at a client.
type peer struct {
	net.Conn
	*bufio.Reader
}

func (p peer) Read(b []byte) (int, error) { return p.Reader.Read(b) }

// dial connects, and may ask for a path.
func (e *ending) dial(t *testing.T, path string) peer {
	conn, err := net.Dial("tcp", e.plain)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(2*soon)))
	if path != "" {
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
	}
	return peer{conn, bufio.NewReader(conn)}
}

func (p peer) response(t *testing.T) *http.Response {
	res, err := http.ReadResponse(p.Reader, nil)
	require.NoError(t, err)
	return res
}

func requireBody(t *testing.T, want string, res *http.Response) {
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, want, string(body))
}

// All others are told, and have ended, before the requests end.
func TestShutdownEndsEachConnectionInItsWay(t *testing.T) {
	t.Parallel()
	e := serveEnding(t)
	silent, work, events, hijacked, idle := e.dial(t, ""), e.dial(t, "/work"), e.dial(t, "/events"), e.dial(t, "/hijack"), e.dial(t, "/")
	requireBody(t, "", idle.response(t))
	line, err := hijacked.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "hello\n", line)
	stream := events.response(t)
	raw, far := net.Pipe() // of another protocol
	e.k.Conn(raw)
	client := http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	overTLS := make(chan *http.Response, 1)
	go func() {
		res, err := client.Get("https://" + e.tls + "/work")
		if err != nil {
			t.Error(err)
		}
		overTLS <- res
	}()
	<-e.begun
	<-e.begun
	require.Eventually(t, func() bool { return e.k.Len() == 7 }, soon, time.Millisecond)

	ended, told := make(chan error, 1), make(chan struct{})
	e.srv.RegisterOnShutdown(sync.OnceFunc(func() { close(told) }))
	go func() { ended <- httpkeepalive.Shutdown(t.Context(), e.srv, e.k) }()
	said, err := io.ReadAll(far)
	require.NoError(t, err)
	require.Equal(t, "bye\n", string(said))
	said, err = io.ReadAll(hijacked)
	require.NoError(t, err)
	require.Equal(t, "bye\n", string(said))
	requireBody(t, "the end\n", stream)
	for _, p := range []peer{silent, idle, events} {
		_, err = io.Copy(io.Discard, p)
		require.NoError(t, err)
	}
	require.Empty(t, ended, "the requests go on")
	if conn, err := net.Dial("tcp", e.plain); err == nil {
		_, err = conn.Read(make([]byte, 1))
		require.Error(t, err, "nobody is let in any more")
		conn.Close()
	}
	<-told // before that, the response might not say that its connection ends
	close(e.finish)
	res := work.response(t)
	require.True(t, res.Close)
	requireBody(t, "done", res)
	res = <-overTLS
	require.Equal(t, 2, res.ProtoMajor)
	requireBody(t, "done", res)
	require.NoError(t, <-ended)
	require.Zero(t, e.k.Len())
	e.mu.Lock()
	defer e.mu.Unlock()
	require.Equal(t, 7, e.ends[keepalive.ReasonDrain]+e.ends[keepalive.ReasonPeer], "%v", e.ends) // a client may be faster
	require.NoError(t, httpkeepalive.Shutdown(t.Context(), e.srv, e.k), "again")
}

// The time is over already, or is over in the middle of a request.
func TestShutdownWithoutTimeStillSaysFarewell(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]time.Duration{"none": 0, "some": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := serveEnding(t)
			work, hijacked := e.dial(t, "/work"), e.dial(t, "/hijack")
			line, err := hijacked.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "hello\n", line)
			<-e.begun
			ctx, cancel := context.WithTimeout(t.Context(), left)
			defer cancel()
			require.ErrorIs(t, httpkeepalive.Shutdown(ctx, e.srv, e.k), context.DeadlineExceeded)
			said, err := io.ReadAll(hijacked)
			require.NoError(t, err)
			require.Equal(t, "bye\n", string(said))
			said, err = io.ReadAll(work)
			require.NoError(t, err)
			require.NotContains(t, string(said), "done")
			require.Zero(t, e.k.Len())
			require.EqualValues(t, 2, e.k.Stats().Closed[keepalive.ReasonDrain])
		})
	}
}

// The client learns what has become of its request, and that the server goes.
func TestShutdownWaitsForAHandshake(t *testing.T) {
	t.Parallel()
	e := serveEnding(t)
	client := e.dial(t, "/handshake")
	<-e.begun
	require.NoError(t, httpkeepalive.Shutdown(t.Context(), e.srv, e.k))
	require.Equal(t, http.StatusSwitchingProtocols, client.response(t).StatusCode)
	said, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Equal(t, "bye\n", string(said))
}

// counting counts the bytes read.
type counting struct {
	net.Conn
	read atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// The farewell and the mode are for other protocols: its bytes would be a response of HTTP/1, and no record of TLS. No peer
// has to close its side.
func TestShutdownClosesIdleConnectionsAsTheServerDoes(t *testing.T) {
	t.Parallel()
	for _, mode := range []keepalive.CloseMode{keepalive.CloseGraceful, keepalive.CloseHalf, keepalive.CloseReset} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			t.Parallel()
			e := serveEnding(t, func(cfg *keepalive.Config) { cfg.Closing.Mode, cfg.Closing.Timeout = mode, time.Hour })
			plain, silent := e.dial(t, "/"), e.dial(t, "")
			requireBody(t, "", plain.response(t))
			e.plain = e.tls
			wire := &counting{Conn: e.dial(t, "").Conn}
			conn := tls.Client(wire, &tls.Config{InsecureSkipVerify: true})
			overTLS := peer{conn, bufio.NewReader(conn)}
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			requireBody(t, "", overTLS.response(t))
			before := wire.read.Load()
			require.NoError(t, httpkeepalive.Shutdown(t.Context(), e.srv, e.k))
			for _, p := range []peer{plain, silent, overTLS} {
				said, err := io.ReadAll(p)
				require.NoError(t, err)
				require.Empty(t, said)
			}
			require.Greater(t, wire.read.Load(), before, "TLS says that it ends")
			e.mu.Lock()
			defer e.mu.Unlock()
			require.Equal(t, map[keepalive.Reason]int{keepalive.ReasonDrain: 3}, e.ends)
		})
	}
}

// Each Shutdown waits for the requests of both.
func TestServersOfOneKeeperAreShutDownTogether(t *testing.T) {
	t.Parallel()
	e := serveEnding(t)
	other := &http.Server{Handler: e.srv.Handler}
	httpkeepalive.Wrap(other, e.k)
	ln := e.listen(t)
	go func() { e.served <- other.Serve(ln) }()
	defer func() { require.ErrorIs(t, <-e.served, http.ErrServerClosed) }()
	first := e.dial(t, "/work")
	e.plain = ln.Addr().String()
	second := e.dial(t, "/work")
	<-e.begun
	<-e.begun
	ended := make(chan error, 2)
	for _, srv := range []*http.Server{e.srv, other} {
		go func() { ended <- httpkeepalive.Shutdown(t.Context(), srv, e.k) }()
	}
	require.Eventually(t, func() bool { return e.k.Stats().Draining }, soon, time.Millisecond)
	require.Empty(t, ended)
	close(e.finish)
	for _, p := range []peer{first, second} {
		requireBody(t, "done", p.response(t))
	}
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
}
