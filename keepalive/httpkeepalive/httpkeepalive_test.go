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

func TestHandlerMayTakeLongerThanTheTimeout(t *testing.T) {
	t.Parallel()
	eachActivity(t, func(t *testing.T, s *server) {
		for proto, base := range s.bases() {
			t.Run(proto, func(t *testing.T) {
				t.Parallel()
				require.Equal(t, "done", s.get(t.Context(), t, base+"/slow?for="+(4*timeout).String()))
			})
		}
	})
}

func TestEventStreamStaysOpen(t *testing.T) {
	t.Parallel()
	eachActivity(t, func(t *testing.T, s *server) {
		for proto, base := range s.bases() {
			t.Run(proto, func(t *testing.T) {
				t.Parallel()
				events := s.get(t.Context(), t, base+"/events?for="+(4*timeout).String())
				require.Contains(t, events, "data: end\n")
			})
		}
	})
}

func TestDownloadBySlowReaderIsWhole(t *testing.T) {
	t.Parallel()
	eachActivity(t, func(t *testing.T, s *server) {
		for proto, base := range s.bases() {
			t.Run(proto, func(t *testing.T) {
				t.Parallel()
				res, err := s.client(t).Get(base + "/big")
				require.NoError(t, err)
				defer res.Body.Close()
				block := make([]byte, size/20)
				for got := 0; got < size; { // in at least four timeouts
					n, err := io.ReadFull(res.Body, block[:min(len(block), size-got)])
					require.NoError(t, err, "after %d bytes", got+n)
					got += n
					time.Sleep(timeout / 5)
				}
			})
		}
	})
}

func TestSlowUploadIsWhole(t *testing.T) {
	t.Parallel()
	eachActivity(t, func(t *testing.T, s *server) {
		for proto, base := range s.bases() {
			t.Run(proto, func(t *testing.T) {
				t.Parallel()
				r, w := io.Pipe()
				go func() {
					for range 20 {
						time.Sleep(timeout / 5)
						fmt.Fprint(w, "0123456789")
					}
					w.Close()
				}()
				res, err := s.client(t).Post(base+"/upload", "text/plain", r)
				require.NoError(t, err)
				defer res.Body.Close()
				body, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				require.Equal(t, "200", string(body))
			})
		}
	})
}

// Each of these peers has the server wait for it.
func TestStalledPeerIsClosed(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":           "",
		"header":            "GET / HTTP/1.1\r\nHost: a\r\n",
		"body":              "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n0123456789",
		"body nobody reads": "POST /slow?for=0s HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n0123456789",
		"between requests":  "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"after a hijack":    "GET /hijack HTTP/1.1\r\nHost: a\r\n\r\n",
		"response":          "GET /big HTTP/1.1\r\nHost: a\r\n\r\n", // and does not read
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachActivity(t, func(t *testing.T, s *server) {
				s.dial(t, false, text)
				require.Equal(t, keepalive.ReasonIdle, s.closes(t))
			})
		})
	}
}

func TestConnectionIsIdleAfterItsResponse(t *testing.T) {
	t.Parallel()
	eachActivity(t, func(t *testing.T, s *server) {
		for proto, base := range s.bases() {
			require.Equal(t, proto, s.get(t.Context(), t, base))
			require.Equal(t, keepalive.ReasonIdle, s.closes(t))
		}
	})
}

func TestHijackedConnectionLivesByItsOwnTimeout(t *testing.T) {
	t.Parallel()
	eachActivity(t, func(t *testing.T, s *server) {
		for _, overTLS := range []bool{false, true} {
			tries := 0
			for ; tries < 10 && !s.beatsAfterHijack(t, overTLS); tries++ {
				require.Equal(t, keepalive.ReasonIdle, s.closes(t))
			}
			require.Less(t, tries, 10, "this client is always slower than it should be")
		}
	})
}

// beatsAfterHijack has a hijacked connection beat for four timeouts, and then fall silent. It reports whether the client
// itself was quick enough.
func (s *server) beatsAfterHijack(t *testing.T, overTLS bool) (quick bool) {
	conn := s.dial(t, overTLS, "GET /hijack HTTP/1.1\r\nHost: a\r\n\r\n")
	defer conn.Close()
	in := bufio.NewReader(conn)
	last, longest := time.Now(), time.Duration(0)
	step := func() {
		longest = max(longest, time.Since(last))
		last = time.Now()
	}
	err := func() (err error) {
		for line := ""; line != "\r\n" && err == nil; {
			line, err = in.ReadString('\n')
		}
		for beats := 0; beats < 20 && err == nil; beats++ { // four timeouts
			time.Sleep(timeout / 5)
			step()
			if _, err = fmt.Fprintln(conn, "beat"); err != nil {
				return err
			}
			var line string
			if line, err = in.ReadString('\n'); err == nil {
				require.Equal(t, "beat\n", line)
			}
		}
		return err
	}()
	if step(); longest > timeout/2 && err != nil {
		return false
	}
	require.NoError(t, err, "the longest pause was %v", longest)
	require.Equal(t, keepalive.ReasonIdle, s.closes(t))
	_, err = in.ReadByte()
	require.Error(t, err)
	return true
}

// While one stream waits for its peer, the request of another is served: the connection stays.
func TestHTTP2ConnectionIsHeldWhileAnyRequestIsServed(t *testing.T) {
	t.Parallel()
	s := start(t, keepalive.ActivityManual, timeout)
	client := s.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body, w := io.Pipe()
	defer w.Close()
	stalled := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+s.tls+"/upload", body)
		if err == nil {
			_, err = client.Do(r)
		}
		stalled <- err
	}()
	_, err := io.WriteString(w, "the beginning")
	require.NoError(t, err)
	res, err := client.Get("https://" + s.tls + "/slow?for=" + (4 * timeout).String())
	require.NoError(t, err)
	res.Body.Close()
	require.EqualValues(t, 1, s.keeper.Stats().Opened, "both have shared a connection")

	require.Equal(t, keepalive.ReasonIdle, s.closes(t), "nobody but the stalled one is left")
	require.Error(t, <-stalled)
}

func TestGuardIsThatOfTheConnection(t *testing.T) {
	k, err := keepalive.New(keepalive.Config{Timeout: timeout, Interval: keepalive.Interval{Max: time.Hour}})
	require.NoError(t, err)
	defer k.Close()
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g := httpkeepalive.Guard(r)
			count, _ := g.Value().(int)
			g.SetValue(count + 1)
			info, ok := g.Info()
			fmt.Fprintf(w, "%v %v %v %v", count, info.Held, ok, r.Context().Value(key{}))
		}),
	}
	states := make(chan http.ConnState, 100)
	srv.ConnState = func(_ net.Conn, state http.ConnState) { states <- state }
	srv.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return context.WithValue(ctx, key{}, "chained") }
	httpkeepalive.Wrap(srv, k)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(k.Listener(ln)) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, want := range []string{"0 true true chained", "1 true true chained"} {
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		res, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, want, string(body))
	}
	for _, want := range []http.ConnState{http.StateNew, http.StateActive, http.StateIdle, http.StateActive} {
		require.Equal(t, want, <-states)
	}
	require.NoError(t, srv.Shutdown(t.Context()))
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}

type key struct{}

func TestConnectionOfNobodyIsServedWithAWarning(t *testing.T) {
	k, err := keepalive.New(keepalive.Config{Timeout: timeout})
	require.NoError(t, err)
	defer k.Close()
	var out bytes.Buffer
	guarded := make(chan bool, 2)
	srv := &http.Server{
		ErrorLog: log.New(&out, "", 0),
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			guarded <- httpkeepalive.Guard(r).Touch()
		}),
	}
	httpkeepalive.Wrap(srv, k)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	for range 2 {
		conn, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		require.False(t, <-guarded)
	}
	require.NoError(t, srv.Close())
	require.ErrorIs(t, <-served, http.ErrServerClosed)
	require.Equal(t, 1, strings.Count(out.String(), "*net.TCPConn is not guarded"), out.String())
}

func TestGuardOfAnyRequest(t *testing.T) {
	r, err := http.NewRequest(http.MethodGet, "http://a", nil)
	require.NoError(t, err)
	require.Nil(t, httpkeepalive.Guard(r))
}
