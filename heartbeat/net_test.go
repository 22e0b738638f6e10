package heartbeat

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/server"
)

// These tests use real sockets, so real time.
const (
	timeout = 3 * time.Second // such as a busy machine keeps
	eternal = time.Minute     // how long a test waits for what must come
)

// echo starts the server of package server.
func echo(t testing.TB) *server.Server {
	s, err := server.New(server.Config{Addr: "127.0.0.1:0", Config: keepalive.Config{Timeout: timeout, Tick: 10 * ms}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	select {
	case <-s.Ready():
	case err := <-ended:
		require.NoError(t, err)
	}
	return s
}

func dial(t testing.TB, addr net.Addr) net.Conn {
	c, err := net.Dial(addr.Network(), addr.String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetReadDeadline(time.Now().Add(eternal)))
	return c
}

func TestTheServerClosesWhoDoesNotBeat(t *testing.T) {
	t.Parallel()
	s := echo(t)
	c := Wrap(dial(t, s.Addr()))
	line, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "BYE idle timeout 3s\n", line)
}

func TestTheServerKeepsWhoBeats(t *testing.T) {
	t.Parallel()
	s := echo(t)
	b := newBeater(t, Config{Tick: 10 * ms})
	var conns []*Conn
	for i := range 60 {
		opts := Options{Timeout: timeout, Answer: Answer(i % 3), Message: []byte("PING 7\n")}
		if opts.Answer == AnswerNone {
			opts.Message = []byte("BEAT\n")
		}
		c, err := b.Start(dial(t, s.Addr()), opts)
		require.NoError(t, err)
		reader(c)
		conns = append(conns, c)
	}
	time.Sleep(4 * timeout)
	for _, c := range conns {
		require.NoError(t, c.Err())
		if c.beat.Load().opts.Answer != AnswerNone {
			require.Positive(t, c.RoundTrip())
			require.Less(t, c.RoundTrip(), timeout)
		}
	}
	require.Zero(t, s.Stats().Closed[keepalive.ReasonIdle])
	require.Equal(t, len(conns), s.Stats().Conns)
	for _, c := range conns {
		require.NoError(t, c.Close())
	}
}

// Servers come and go, and the client stays.
func TestReconnectFollowsTheServer(t *testing.T) {
	t.Parallel()
	var present atomic.Pointer[server.Server]
	var connected atomic.Int32
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Reconnect(ctx, Backoff{First: 10 * ms, Max: 100 * ms}, func(ctx context.Context) (net.Conn, error) {
			s := present.Load()
			if s == nil {
				return nil, io.EOF
			}
			return new(net.Dialer).DialContext(ctx, "tcp", s.Addr().String())
		}, func(_ context.Context, conn net.Conn) error {
			c, err := Start(conn, Options{Timeout: time.Minute, Message: []byte("BEAT\n")})
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err := c.Write([]byte("PING\n")); err != nil {
				return err
			}
			for lines := bufio.NewScanner(c); lines.Scan(); {
				if lines.Text() == "PONG" {
					connected.Add(1)
				}
			}
			return io.ErrUnexpectedEOF
		})
	}()
	for n := range int32(3) {
		s := echo(t)
		present.Store(s)
		require.Eventually(t, func() bool { return connected.Load() > n }, eternal, ms)
		if n < 2 {
			present.Store(nil)
			require.NoError(t, s.Shutdown(context.Background()))
		}
	}
	cancel()
	err := <-ended
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// A hanging server: its kernel takes the beats and says nothing.
func TestAServerThatHangs(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	b := newBeater(t, Config{Tick: 10 * ms})
	begin := time.Now()
	c, err := b.Start(dial(t, ln.Addr()), Options{Timeout: timeout, Message: []byte("PING\n"), Answer: AnswerRead})
	require.NoError(t, err)
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, ErrNoAnswer)
	require.GreaterOrEqual(t, time.Since(begin), timeout/3)
	require.Less(t, time.Since(begin), eternal)
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "read", op.Op)
	require.NoError(t, c.Close(), "it is closed already")
	require.Equal(t, ln.Addr().String(), op.Addr.String())
}

// A peer reads nothing: its socket is full at some time.
func TestAPeerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	b := newBeater(t, Config{Tick: 10 * ms})
	begin := time.Now()
	err = b.Run(t.Context(), dial(t, ln.Addr()), Options{Timeout: timeout, Beat: func(conn net.Conn) error {
		_, err := io.Copy(conn, zeros{})
		return err
	}})
	require.ErrorIs(t, err, ErrNoAnswer)
	require.ErrorContains(t, err, "a beat could not be written within 3s")
	require.Less(t, time.Since(begin), eternal)
}

// Above TLS, and below it: there beats are messages of the layer above.
func TestTLS(t *testing.T) {
	t.Parallel()
	k, err := keepalive.New(keepalive.Config{Timeout: timeout, Tick: 10 * ms})
	require.NoError(t, err)
	defer k.Close()
	certificates := httptest.NewTLSServer(nil)
	defer certificates.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				c := tls.Server(k.Conn(conn), &tls.Config{Certificates: certificates.TLS.Certificates})
				_, _ = io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	trust := &tls.Config{RootCAs: certificates.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"}
	b := newBeater(t, Config{Tick: 10 * ms})
	opts := Options{Timeout: timeout, Message: []byte("PONG\n"), Answer: AnswerAck}

	above, err := b.Start(tls.Client(dial(t, ln.Addr()), trust), opts)
	require.NoError(t, err)
	reader(above)

	under := Wrap(dial(t, ln.Addr()))
	secure := tls.Client(under, trust)
	opts.Message, opts.Beat = nil, func(net.Conn) error { _, err := io.WriteString(secure, "PONG\n"); return err }
	below, err := b.Start(under, opts)
	require.NoError(t, err)
	go func() {
		for lines := bufio.NewScanner(secure); lines.Scan(); {
			below.Ack()
		}
	}()
	time.Sleep(3 * timeout)
	require.NoError(t, above.Err())
	require.NoError(t, below.Err())
	require.Positive(t, above.RoundTrip())
	require.Positive(t, below.RoundTrip())
	require.NoError(t, above.Close())
	require.NoError(t, below.Close())
}

func TestAConnectionOfTCPStaysCapable(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	b := newBeater(t, Config{})
	c, err := b.Start(dial(t, ln.Addr()), pings)
	require.NoError(t, err)
	peer, err := ln.Accept()
	require.NoError(t, err)
	defer peer.Close()

	var _ syscall.Conn = c
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(uintptr) {}))
	require.Equal(t, ln.Addr().String(), c.RemoteAddr().String())
	require.Equal(t, peer.RemoteAddr().String(), c.LocalAddr().String())

	n, err := io.Copy(c, strings.NewReader("the last words"))
	require.NoError(t, err)
	require.EqualValues(t, 14, n)
	require.NoError(t, c.CloseWrite())
	require.ErrorIs(t, c.Err(), ErrStopped, "there can be no more beats")
	got, err := io.ReadAll(peer)
	require.NoError(t, err)
	require.Equal(t, "the last words", string(got))
	_, err = peer.Write([]byte("yours"))
	require.NoError(t, err)
	buf := make([]byte, 5)
	_, err = io.ReadFull(c, buf)
	require.NoError(t, err)
	require.Equal(t, "yours", string(buf))
	require.NoError(t, c.CloseRead())
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.Close(), net.ErrClosed)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
