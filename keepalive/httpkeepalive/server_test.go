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
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
)

func TestMain(m *testing.M) {
	testmain.Parallel(24)
	goleak.VerifyTestMain(testmain.Patient(m))
}

// A live peer is heard five times per timeout: it lives although this machine may have other work for
// more than a second. With half a second, four runs at the same time lost peers in each.
const (
	timeout = 2 * time.Second
	soon    = 10 * timeout // by when a doomed connection is closed
	size    = 40 << 20     // of a download
)

// activities are all activities of this system: the doc promises any of them.
func activities() []keepalive.Activity {
	all := []keepalive.Activity{keepalive.ActivityRead, keepalive.ActivityReadWrite, keepalive.ActivityManual}
	if runtime.GOOS == "linux" {
		all = append(all, keepalive.ActivityKernel)
	}
	return all
}

// eachActivity tests with each activity, on a server of its own.
func eachActivity(t *testing.T, test func(t *testing.T, s *server)) {
	eachActivityFor(t, timeout, test)
}

func eachActivityFor(t *testing.T, timeout time.Duration, test func(t *testing.T, s *server)) {
	for _, activity := range activities() {
		t.Run(activity.String(), func(t *testing.T) {
			t.Parallel()
			test(t, start(t, activity, timeout))
		})
	}
}

// server serves the same handler plain and over TLS.
type server struct {
	keeper      *keepalive.Keeper
	plain, tls  string // addresses
	closed      chan keepalive.Reason
	unexpected  atomic.Int64 // calls without a guard
	interrupted chan error   // why the handler of a download has ended
}

func start(t *testing.T, activity keepalive.Activity, timeout time.Duration) *server {
	s := &server{closed: make(chan keepalive.Reason, 100), interrupted: make(chan error, 1)}
	certificate, _ := certtest.New(t)
	var err error
	s.keeper, err = keepalive.New(keepalive.Config{
		Timeout:  timeout,
		Activity: activity,
		OnClose:  func(_ any, reason keepalive.Reason) { s.closed <- reason },
	})
	require.NoError(t, err)
	srv := &http.Server{
		Handler: s.handler(),
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{certificate},
			NextProtos:   []string{"h2", "http/1.1"}, // Serve would switch HTTP/2 off for ServeTLS
			MinVersion:   tls.VersionTLS12,
		},
		ErrorLog: log.New(io.Discard, "", 0), // broken handshakes
	}
	httpkeepalive.Wrap(srv, s.keeper)
	plain, overTLS := s.listen(t), s.listen(t)
	s.plain, s.tls = plain.Addr().String(), overTLS.Addr().String()
	served := make(chan error, 2)
	go func() { served <- srv.Serve(plain) }()
	go func() { served <- srv.ServeTLS(overTLS, "", "") }()
	t.Cleanup(func() {
		_ = srv.Close()
		s.keeper.Close()
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		require.Zero(t, s.unexpected.Load(), "requests without a guard")
	})
	return s
}

func (s *server) listen(t *testing.T) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return s.keeper.Listener(ln)
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(duration(r)):
			fmt.Fprint(w, "done")
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for end := time.Now().Add(duration(r)); time.Now().Before(end) && r.Context().Err() == nil; time.Sleep(timeout / 5) {
			fmt.Fprint(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		fmt.Fprint(w, "data: end\n\n")
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		block := make([]byte, 1<<20)
		for range size / len(block) {
			if _, err := w.Write(block); err != nil {
				s.interrupted <- err
				return
			}
		}
	})
	mux.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			s.interrupted <- err
			return
		}
		fmt.Fprint(w, n)
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusHTTPVersionNotSupported)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n")
		_ = rw.Flush()
		for in := bufio.NewScanner(rw); in.Scan(); {
			httpkeepalive.Guard(r).Touch()
			fmt.Fprintln(conn, in.Text())
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if httpkeepalive.Guard(r) == nil {
			s.unexpected.Add(1)
		}
		mux.ServeHTTP(w, r)
	})
}

func duration(r *http.Request) time.Duration {
	d, err := time.ParseDuration(r.FormValue("for"))
	if err != nil {
		panic(err)
	}
	return d
}

// dial connects, and sends what a peer begins with.
func (s *server) dial(t *testing.T, overTLS bool, text string) net.Conn {
	addr := s.plain
	if overTLS {
		addr = s.tls
	}
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	if overTLS {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn
}

// get asks for a path with a client of its own.
func (s *server) get(ctx context.Context, t *testing.T, url string) string {
	client := s.client(t)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	res, err := client.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(body)
}

// client returns a client with connections of its own. On a busy machine a handshake may take longer than
// the timeout, so the client tries again.
func (*server) client(t *testing.T) *http.Client {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
	transport := &http.Transport{ForceAttemptHTTP2: true}
	transport.DialTLSContext = func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		for range 10 {
			if conn, err = dialer.DialContext(ctx, network, addr); err == nil {
				return conn, nil
			}
		}
		return nil, err
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// bases are the addresses of the server as URLs.
func (s *server) bases() map[string]string {
	return map[string]string{"HTTP/1.1": "http://" + s.plain, "HTTP/2.0": "https://" + s.tls}
}

// closes waits for a connection to be closed, and returns the reason.
func (s *server) closes(t *testing.T) keepalive.Reason {
	select {
	case reason := <-s.closed:
		return reason
	case <-time.After(soon):
		require.Fail(t, "the connection is not closed")
		return 0
	}
}
