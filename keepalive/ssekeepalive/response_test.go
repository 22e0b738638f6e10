package ssekeepalive

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOnlyEventStreamsGetComments(t *testing.T) {
	header := func(kind string, more ...string) http.Header {
		h := http.Header{"Content-Type": {kind}}
		for i := 0; i < len(more); i += 2 {
			h.Set(more[i], more[i+1])
		}
		return h
	}
	for name, test := range map[string]struct {
		method string
		status int
		header http.Header
		want   bool
	}{
		"an event stream":   {"GET", 200, header("text/event-stream"), true},
		"of a POST":         {"POST", 200, header("text/event-stream"), true},
		"with a charset":    {"GET", 200, header("Text/Event-Stream ; charset=utf-8"), true},
		"as it is":          {"GET", 200, header("text/event-stream", "Content-Encoding", "identity"), true},
		"no content type":   {"GET", 200, http.Header{}, false},
		"another type":      {"GET", 200, header("text/event-streams"), false},
		"a header's answer": {"HEAD", 200, header("text/event-stream"), false},
		"an error":          {"GET", 500, header("text/event-stream"), false},
		"no content":        {"GET", 204, header("text/event-stream"), false},
		"a finite one":      {"GET", 200, header("text/event-stream", "Content-Length", "100"), false},
		"a compressed one":  {"GET", 200, header("text/event-stream", "Content-Encoding", "gzip"), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, w := newStreams(t, Config{Interval: interval}), newFakeWriter(t)
				w.header = test.header
				k.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusEarlyHints)
					w.WriteHeader(test.status)
					w.Header().Set("Content-Type", "text/event-stream") // too late
					time.Sleep(interval + time.Second)
				})).ServeHTTP(w, httptest.NewRequest(test.method, "/", nil))
				require.Equal(t, test.want, w.said() == ": \n\n")
			})
		})
	}
}

func TestAnEncodedStreamIsLogged(t *testing.T) {
	var log bytes.Buffer
	k, w := newStreams(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}), newFakeWriter(t)
	w.header.Set("Content-Encoding", "br")
	for range 3 {
		serve(k, w, quietly(0))
	}
	require.Equal(t, 1, strings.Count(log.String(), "encoding=br"), log.String())
}

// The header leaves with the first of all methods that write.
func TestAStreamMayBeginWithAnyWrite(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter) error{
		"Write":       func(w http.ResponseWriter) error { _, err := w.Write([]byte("data: x\n\n")); return err },
		"WriteString": func(w http.ResponseWriter) error { _, err := io.WriteString(w, "data: x\n\n"); return err },
		"ReadFrom": func(w http.ResponseWriter) error {
			_, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader("data: x\n\n"))
			return err
		},
		"Flush":        func(w http.ResponseWriter) error { w.(http.Flusher).Flush(); return send(w, "data: x\n\n") },
		"FlushError":   func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() },
		"not at all":   func(http.ResponseWriter) error { return nil },
		"half a write": func(w http.ResponseWriter) error { _, err := io.WriteString(w, "data: x"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, w := newStreams(t, Config{Interval: interval}), newFakeWriter(t)
				serve(k, w, func(w http.ResponseWriter, _ *http.Request) {
					require.NoError(t, begin(w))
					time.Sleep(interval + time.Second)
				})
				switch name {
				case "FlushError":
					require.Equal(t, ": \n\n", w.said())
				case "not at all", "half a write":
					require.Empty(t, w.said())
				default:
					require.Equal(t, "data: x\n\n: \n\n", w.said())
				}
			})
		})
	}
}

type (
	onlyWriter struct{ http.ResponseWriter }
	unwrapping struct{ onlyWriter }
	hijackable struct {
		http.ResponseWriter
		http.Flusher
	}
)

func (u unwrapping) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func (hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

func TestAResponseCanWhatTheOneInsideCan(t *testing.T) {
	k := newStreams(t, Config{})
	for name, test := range map[string]struct {
		inside        http.ResponseWriter
		flush, hijack bool
	}{
		"writes":   {onlyWriter{httptest.NewRecorder()}, false, false},
		"unwraps":  {unwrapping{onlyWriter{httptest.NewRecorder()}}, true, false},
		"flushes":  {httptest.NewRecorder(), true, false},
		"errors":   {newFakeWriter(t), true, false},
		"hijacked": {hijackable{httptest.NewRecorder(), httptest.NewRecorder()}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			serve(k, test.inside, func(w http.ResponseWriter, _ *http.Request) {
				_, flush := w.(http.Flusher)
				require.Equal(t, test.flush, flush)
				_, hijack := w.(http.Hijacker)
				require.Equal(t, test.hijack, hijack)
				controller := http.NewResponseController(w)
				require.Equal(t, test.flush, controller.Flush() == nil)
				_, _, err := controller.Hijack()
				require.Equal(t, test.hijack, err == nil)
				require.ErrorIs(t, w.(http.Pusher).Push("/", nil), http.ErrNotSupported)
				require.Nil(t, w.(interface{ CloseNotify() <-chan bool }).CloseNotify())
				n, err := io.Copy(w, strings.NewReader("copied"))
				require.NoError(t, err)
				require.EqualValues(t, 6, n)
			})
		})
	}
}

// A ResponseWriter that can't flush can't have comments.
func TestAStreamWithoutFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w := newStreams(t, Config{Interval: interval}), httptest.NewRecorder()
		w.Header().Set("Content-Type", "text/event-stream")
		serve(k, onlyWriter{w}, func(w http.ResponseWriter, _ *http.Request) {
			_, err := io.WriteString(w, "data: x\n\n")
			require.NoError(t, err)
			time.Sleep(3 * interval)
		})
		require.EqualValues(t, 1, k.Stats().Failed)
		require.Zero(t, k.Stats().Comments)
	})
}

// Without SetWriteDeadline inside, as in tests with a recorder, there are comments, and no bound.
func TestAStreamWithoutDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w := newStreams(t, Config{Interval: interval}), httptest.NewRecorder()
		w.Header().Set("Content-Type", "text/event-stream")
		serve(k, w, quietly(interval+time.Second))
		require.Equal(t, ": \n\n", w.Body.String())
	})
}
