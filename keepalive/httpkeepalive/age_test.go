package httpkeepalive_test

import (
	"bufio"
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
			reached := make(chan struct{})
			s := serveAging(t, false, keepalive.Age{OnMax: func(any) { close(reached) }}, func(w http.ResponseWriter, r *http.Request) {
				if body == "" {
					<-httpkeepalive.Ending(r)
					time.Sleep(age)
				}
				n, err := io.Copy(io.Discard, r.Body)
				fmt.Fprint(w, n, err)
			})
			conn, in := s.dial(t)
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", len(body))
			<-reached
			time.Sleep(age / 2)
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

// A request after the age is told that it is the last one. With HTTP/2 that is a GOAWAY.
func TestTheNextResponseSaysThatTheAgeIsReached(t *testing.T) {
	t.Parallel()
	for _, overTLS := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", overTLS), func(t *testing.T) {
			t.Parallel()
			for range 20 {
				if isToldWithTheNextResponse(t, overTLS) {
					return
				}
			}
			t.Fatal("this machine is too busy for a response within the age")
		})
	}
}

// isToldWithTheNextResponse reports whether the first response came before the age.
func isToldWithTheNextResponse(t *testing.T, overTLS bool) bool {
	told := make(chan uint64, 10)
	s := serveAging(t, overTLS, keepalive.Age{Grace: soon, OnMax: func(conn any) {
		info, _ := keepalive.Of(conn).Info()
		told <- info.ID
	}}, func(w http.ResponseWriter, r *http.Request) {
		info, _ := httpkeepalive.Guard(r).Info()
		fmt.Fprint(w, info.ID)
	})
	get := func() (id string, last bool) {
		res, err := s.client.Get(s.url(overTLS))
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(body), res.Close
	}
	id, _ := get()
	if len(told) > 0 {
		return false
	}
	select {
	case first := <-told:
		require.Equal(t, id, fmt.Sprint(first))
	case reason := <-s.closed:
		require.Fail(t, "the connection is closed before its age", "%v", reason)
	}
	again, last := get()
	if again != id {
		return false
	}
	require.Equal(t, !overTLS, last)
	s.requireEnd(t, keepalive.ReasonMaxAge, keepalive.ReasonPeer)
	return true
}

func (s *aging) url(overTLS bool) string {
	if overTLS {
		return "https://" + s.addr
	}
	return "http://" + s.addr
}

// Without a grace, too, a client may already be sending its next request.
func TestAnIdleConnectionIsClosedSomeTimeAfterItsAge(t *testing.T) {
	t.Parallel()
	s := serveAging(t, false, keepalive.Age{}, func(http.ResponseWriter, *http.Request) {})
	conn, in := s.dial(t)
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	res, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	_, err = in.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	s.requireEnd(t, keepalive.ReasonMaxAge)
}

// The header of an event stream has left long before. Its handler learns of the age, and its
// connection ends with the stream. One that goes on is cut after the grace.
func TestEventStreamsLearnOfTheAge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		grace time.Duration
		deaf  bool
	}{
		"it listens":       {grace: soon},
		"without a grace":  {},
		"it does not care": {grace: 5 * age, deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveAging(t, false, keepalive.Age{Grace: test.grace}, func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).Flush()
				if test.deaf {
					<-httpkeepalive.Guard(r).Context().Done()
					panic(http.ErrAbortHandler) // its last chunk could be faster than the end
				}
				<-httpkeepalive.Ending(r)
				fmt.Fprint(w, "bye")
			})
			conn, in := s.dial(t)
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			res, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			body, err := io.ReadAll(res.Body)
			if test.deaf {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			} else {
				require.NoError(t, err)
				require.Equal(t, "bye", string(body))
			}
			if test.grace < soon {
				s.requireEnd(t, keepalive.ReasonMaxAge)
			}
		})
	}
}

// Clients and handlers have Connection headers of their own, and the next request always comes before the last word is over:
// without the server's, an HTTP/1.1 connection would have no age.
func TestABusyConnectionIsToldOfItsAge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ request, response string }{
		"no header":                      {},
		"the client offers h2c":          {request: "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"},
		"the handler says keep-alive":    {response: "keep-alive"},
		"both, and the server is no h2c": {request: "Connection: Upgrade\r\nUpgrade: h2c\r\n", response: "keep-alive"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveAging(t, false, keepalive.Age{}, func(w http.ResponseWriter, _ *http.Request) {
				if test.response != "" {
					w.Header().Set("Connection", test.response)
				}
				fmt.Fprint(w, "x")
			})
			conn, in := s.dial(t)
			for begin := time.Now(); ; time.Sleep(age / 3) {
				require.Less(t, time.Since(begin), soon, "no response says that it is the last one")
				fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", test.request)
				res, err := http.ReadResponse(in, nil)
				if err != nil { // this machine has let the next request come too late
					break
				}
				_, err = io.Copy(io.Discard, res.Body)
				require.NoError(t, err)
				if res.Close {
					_, err = in.ReadByte()
					require.ErrorIs(t, err, io.EOF)
					break
				}
			}
			s.requireEnd(t, keepalive.ReasonMaxAge, keepalive.ReasonPeer)
		})
	}
}

// A response that looks for the age is as capable as that of net/http.
func TestAResponseStaysCapable(t *testing.T) {
	t.Parallel()
	for _, overTLS := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", overTLS), func(t *testing.T) {
			t.Parallel()
			can := make(chan []bool, 2)
			s := serveAging(t, overTLS, keepalive.Age{Grace: soon}, func(w http.ResponseWriter, _ *http.Request) {
				_, flushes := w.(http.Flusher)
				_, writes := w.(io.StringWriter)
				_, hijacks := w.(http.Hijacker)
				_, reads := w.(io.ReaderFrom)
				_, pushes := w.(http.Pusher)
				deadlines := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(soon)) == nil
				can <- []bool{flushes, writes, deadlines, hijacks, reads, pushes}
				w.Header().Set("Link", "</style.css>")
				w.WriteHeader(http.StatusEarlyHints)
				_, _ = io.WriteString(w, "a")
				_, _ = io.Copy(w, io.LimitReader(strings.NewReader("bc"), 1))
				w.(http.Flusher).Flush()
				if h, ok := w.(http.Hijacker); ok {
					conn, rw, err := h.Hijack()
					if err == nil {
						fmt.Fprint(rw, "1\r\nc\r\n0\r\n\r\n")
						_ = rw.Flush()
						_ = conn.Close()
					}
				}
			})
			res, err := s.client.Get(s.url(overTLS))
			require.NoError(t, err)
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.Equal(t, map[bool]string{false: "abc", true: "ab"}[overTLS], string(body))
			require.Equal(t, []bool{true, true, true, !overTLS, !overTLS, overTLS}, <-can)
		})
	}
}

// http.MaxBytesReader knows the responses of net/http only.
func TestAClientThatSendsTooMuchIsClosed(t *testing.T) {
	t.Parallel()
	k, err := keepalive.New(keepalive.Config{Timeout: time.Minute})
	require.NoError(t, err)
	defer k.Close()
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 10)); err != nil {
			http.Error(w, "too large", http.StatusBadRequest)
		}
	})}
	httpkeepalive.Wrap(srv, k)
	defer srv.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go srv.Serve(k.Listener(ln))
	res, err := http.Post("http://"+ln.Addr().String(), "", strings.NewReader(strings.Repeat("x", 100_000)))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.True(t, res.Close)
}
