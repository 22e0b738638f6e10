package ssekeepalive_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/httpkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/ssekeepalive"
)

// soon is a patient bound of what must come.
const soon = time.Minute

// server is net/http's, and speaks all its protocols.
type server struct {
	*http.Server
	streams *ssekeepalive.Streams
	url     string
	client  *http.Client
	keeper  *keepalive.Keeper // nil without one
}

// eachProtocol runs a test with each way to serve. change may be nil.
func eachProtocol(t *testing.T, cfg ssekeepalive.Config, change func(*server), test func(t *testing.T, s *server, mux *http.ServeMux)) {
	for _, name := range []string{"HTTP/1.1", "HTTP/2", "HTTP/2 without TLS"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, err := ssekeepalive.New(cfg)
			require.NoError(t, err)
			mux := http.NewServeMux()
			ts := httptest.NewUnstartedServer(k.Wrap(mux))
			s := &server{Server: ts.Config, streams: k}
			ts.Config.ErrorLog = log.New(io.Discard, "", 0)
			if change != nil {
				change(s)
			}
			if s.keeper != nil {
				httpkeepalive.Wrap(ts.Config, s.keeper)
				ts.Listener = s.keeper.Listener(ts.Listener)
			}
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: new(http.Protocols), ReadBufferSize: 4096}
			switch name {
			case "HTTP/1.1":
				transport.Protocols.SetHTTP1(true)
				ts.Start()
			case "HTTP/2":
				transport.Protocols.SetHTTP2(true)
				ts.EnableHTTP2 = true
				ts.StartTLS()
			default:
				transport.Protocols.SetUnencryptedHTTP2(true)
				ts.Config.Protocols = new(http.Protocols)
				ts.Config.Protocols.SetUnencryptedHTTP2(true)
				ts.Start()
			}
			s.url, s.client = ts.URL, &http.Client{Transport: transport}
			t.Cleanup(func() {
				transport.CloseIdleConnections()
				ts.CloseClientConnections()
				ts.Close()
				require.Eventually(t, func() bool { return k.Stats().Streams == 0 }, soon, time.Millisecond)
				require.NoError(t, k.Close())
			})
			test(t, s, mux)
		})
	}
}

// get returns the body of a response, which ends with the test at the latest.
func (s *server) get(t *testing.T, path string) (*bufio.Reader, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	require.NoError(t, err)
	res, err := s.client.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { cancel(); _ = res.Body.Close() })
	return bufio.NewReader(res.Body), cancel
}

// requireComments requires comments, and nothing else.
func requireComments(t *testing.T, body *bufio.Reader, n int) {
	t.Helper()
	for range n {
		block := make([]byte, len(": \n\n"))
		_, err := io.ReadFull(body, block)
		require.NoError(t, err)
		require.Equal(t, ": \n\n", string(block))
	}
}

// opens begins an event stream.
func opens(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	_ = http.NewResponseController(w).Flush()
}

// A stream outlives WriteTimeout of the server, and Timeout of a Keeper. Its connection then serves another request.
func TestAQuietStreamLives(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second // a busy machine takes its time for a handshake
	cfg := ssekeepalive.Config{Interval: timeout / 20, WriteTimeout: time.Minute}
	change := func(s *server) {
		s.WriteTimeout = timeout
		var err error
		s.keeper, err = keepalive.New(keepalive.Config{
			Timeout: timeout,
			Age:     keepalive.Age{Max: time.Hour}, // another ResponseWriter around that of net/http
		})
		if err != nil {
			panic(err)
		}
	}
	eachProtocol(t, cfg, change, func(t *testing.T, s *server, mux *http.ServeMux) {
		defer s.keeper.Close()
		event := make(chan string)
		mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
			opens(w)
			select {
			case e := <-event:
				fmt.Fprint(w, e)
			case <-r.Context().Done():
			}
		})
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) })
		body, _ := s.get(t, "/events")
		requireComments(t, body, 25) // longer than the timeouts
		require.Equal(t, 1, s.streams.Stats().Streams)
		event <- "data: x\n\n"
		rest, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, "data: x\n\n", strings.ReplaceAll(string(rest), ": \n\n", ""))

		var reused bool
		trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
		r, err := http.NewRequestWithContext(trace, http.MethodGet, s.url, nil)
		require.NoError(t, err)
		res, err := s.client.Do(r)
		require.NoError(t, err)
		_, err = io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		if reused { // by then a busy machine may have been silent for a timeout
			require.EqualValues(t, 1, s.keeper.Stats().Opened)
		}
	})
}

// Without a bound of its own, the package leaves that of the server.
func TestWithoutABoundTheServersHolds(t *testing.T) {
	t.Parallel()
	cfg := ssekeepalive.Config{Interval: 10 * time.Millisecond, WriteTimeout: -1}
	eachProtocol(t, cfg, func(s *server) { s.WriteTimeout = 2 * time.Second }, func(t *testing.T, s *server, mux *http.ServeMux) {
		mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
			opens(w)
			<-r.Context().Done()
		})
		body, _ := s.get(t, "/events")
		_, err := io.Copy(io.Discard, body)
		require.Error(t, err)
	})
}

// Its write fails, its context ends, and the other streams of the connection go on.
func TestASlowReaderIsEndedByEachProtocol(t *testing.T) {
	t.Parallel()
	cfg := ssekeepalive.Config{Interval: 50 * time.Millisecond, WriteTimeout: 2 * time.Second}
	eachProtocol(t, cfg, nil, func(t *testing.T, s *server, mux *http.ServeMux) {
		ended := make(chan error, 1)
		mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
			opens(w)
			event := "data: " + strings.Repeat("x", 10_000) + "\n\n"
			for {
				if _, err := io.WriteString(w, event); err != nil {
					<-r.Context().Done()
					ended <- err
					return
				}
			}
		})
		mux.HandleFunc("/quiet", func(w http.ResponseWriter, r *http.Request) {
			opens(w)
			<-r.Context().Done()
		})
		quiet, _ := s.get(t, "/quiet")
		s.get(t, "/slow")
		select {
		case err := <-ended:
			require.ErrorIs(t, err, ssekeepalive.ErrSlowReader)
		case <-time.After(soon):
			require.Fail(t, "the reader is still there")
		}
		require.EqualValues(t, 1, s.streams.Stats().Slow)
		sent := s.streams.Stats().Comments
		requireComments(t, quiet, int(sent)+3) // some of them after the end
	})
}

// The program writes its events in pieces, at any time, and all of them arrive as they are.
func TestCommentsLeaveEventsWhole(t *testing.T) {
	t.Parallel()
	cfg := ssekeepalive.Config{Interval: 10 * time.Millisecond, WriteTimeout: time.Minute, Comment: "still here"}
	eachProtocol(t, cfg, nil, func(t *testing.T, s *server, mux *http.ServeMux) {
		var events strings.Builder
		for i := range 60 {
			fmt.Fprintf(&events, "id: %d\r\ndata: %s\n\n", i, strings.Repeat("y", rand.IntN(3000)))
		}
		mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
			opens(w)
			for all := events.String(); all != ""; {
				n := min(len(all), 1+rand.IntN(2000))
				if i := strings.Index(all, "\n\n"); rand.IntN(2) == 0 {
					n = i + 2
				}
				w.Header().Set("X-Later", "too late") // while a comment sends the header
				_, _ = io.WriteString(w, all[:n])
				all = all[n:]
				if rand.IntN(2) == 0 {
					w.(http.Flusher).Flush()
				}
				time.Sleep(rand.N(15 * time.Millisecond))
			}
		})
		var all [4]string
		var wg sync.WaitGroup
		for i := range all {
			body, _ := s.get(t, "/")
			wg.Go(func() {
				b, _ := io.ReadAll(body)
				all[i] = string(b)
			})
		}
		wg.Wait()
		for _, said := range all {
			require.True(t, events.String() == strings.ReplaceAll(said, ": still here\n\n", ""))
			for block := range strings.SplitSeq(strings.TrimSuffix(said, "\n\n"), "\n\n") {
				require.True(t, block == ": still here" || strings.HasPrefix(block, "id: "), "%.50q", block)
			}
		}
		require.Positive(t, s.streams.Stats().Comments)
	})
}

// A reverse proxy is a library's handler, and flushes in a goroutine of its own. Its server may stop within an event.
func TestAReverseProxyInside(t *testing.T) {
	t.Parallel()
	cfg := ssekeepalive.Config{Interval: 20 * time.Millisecond, WriteTimeout: time.Minute}
	eachProtocol(t, cfg, nil, func(t *testing.T, s *server, mux *http.ServeMux) {
		parts := make(chan string)
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			opens(w)
			for part := range parts {
				fmt.Fprint(w, part)
				_ = http.NewResponseController(w).Flush()
			}
		}))
		defer upstream.Close()
		target, err := url.Parse(upstream.URL)
		require.NoError(t, err)
		mux.Handle("/", httputil.NewSingleHostReverseProxy(target))

		body, _ := s.get(t, "/")
		requireComments(t, body, 5)
		parts <- "data: half\n"
		withheld := s.streams.Stats().Withheld
		require.Eventually(t, func() bool { return s.streams.Stats().Withheld > withheld+3 }, soon, time.Millisecond)
		parts <- "data: whole\n\n"
		sent := s.streams.Stats().Comments
		require.Eventually(t, func() bool { return s.streams.Stats().Comments > sent+3 }, soon, time.Millisecond)
		close(parts)
		all, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, "data: half\ndata: whole\n\n", strings.ReplaceAll(string(all), ": \n\n", ""))
	})
}

// A client of HTTP/2 gives any window, and then reads nothing from its socket: no RST_STREAM can leave, and the server
// needs WriteByteTimeout.
func TestAStuckConnectionOfHTTP2(t *testing.T) {
	t.Parallel()
	k, err := ssekeepalive.New(ssekeepalive.Config{Interval: 20 * time.Millisecond, WriteTimeout: 200 * time.Millisecond})
	require.NoError(t, err)
	defer k.Close()
	ended := make(chan error, 1)
	ts := httptest.NewUnstartedServer(k.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		opens(w)
		for {
			if _, err := w.Write([]byte("data: " + strings.Repeat("x", 10_000) + "\n\n")); err != nil {
				ended <- err
				return
			}
		}
	})))
	ts.Config.Protocols = new(http.Protocols)
	ts.Config.Protocols.SetUnencryptedHTTP2(true)
	ts.Config.HTTP2 = &http.HTTP2Config{WriteByteTimeout: 3 * time.Second}
	ts.Start()
	defer ts.Close()
	conn, err := net.Dial("tcp", ts.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write(greedyRequest())
	require.NoError(t, err)
	select {
	case err := <-ended:
		require.ErrorIs(t, err, ssekeepalive.ErrSlowReader)
	case <-time.After(soon):
		require.Fail(t, "the write goes on")
	}
	require.Eventually(t, func() bool { return k.Stats().Streams == 0 }, soon, time.Millisecond)
}

// greedyRequest is a GET of HTTP/2 whose windows are as large as they can be, see RFC 9113.
func greedyRequest() []byte {
	const most = 1<<31 - 1
	b := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frame := func(kind, flags byte, stream uint32, payload []byte) {
		b = append(b, 0, 0, byte(len(payload)), kind, flags)
		b = append(binary.BigEndian.AppendUint32(b, stream), payload...)
	}
	frame(4, 0, 0, binary.BigEndian.AppendUint32([]byte{0, 4}, most)) // SETTINGS_INITIAL_WINDOW_SIZE
	frame(8, 0, 0, binary.BigEndian.AppendUint32(nil, most-65535))    // WINDOW_UPDATE of the connection
	frame(1, 5, 1, []byte{0x82, 0x84, 0x86, 0x41, 1, 'a'})            // HEADERS: GET / http, authority a
	return b
}
