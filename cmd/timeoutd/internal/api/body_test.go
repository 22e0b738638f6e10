package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Millions of elements fit into one body, but millions are not made of it.
func TestALongListCostsNoMoreThanItsBody(t *testing.T) {
	s := start(t, Config{})
	for path, name := range map[string]string{"set": "tasks", "get": "keys"} {
		body := `{"` + name + `":[{}` + strings.Repeat(",{}", 1<<20/3) + `]}`
		r := httptest.NewRequest(http.MethodPost, "http://localhost/v1/tasks/"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.handler.ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Contains(t, w.Body.String(), "at least 1001 tasks in a request, must be at most 1000")
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10<<20), "bytes for a body of 1 MiB")
	}
}

// Only a few long bodies are read at the same time. The others wait, and get an error if the
// wait is too long. Short bodies never wait.
func TestLongBodiesAtTheSameTime(t *testing.T) {
	s := start(t, Config{MaxBody: 64 << 10})
	s.handler.patience = eternal
	began, ended := make(chan *io.PipeWriter), make(chan int, 2*bodiesAtOnce)
	for range bodiesAtOnce {
		go func() {
			body, sender := io.Pipe()
			r, _ := http.NewRequest(http.MethodPut, s.url+"/v1/topics/t/tasks/a", body) // of unknown length
			r.Header.Set("Content-Type", "application/json")
			go func() {
				_, _ = sender.Write([]byte("{")) // asked for when the head has come
				began <- sender
			}()
			res, err := s.http.Do(r)
			if err != nil {
				ended <- 0
				return
			}
			res.Body.Close()
			ended <- res.StatusCode
		}()
	}
	var senders []*io.PipeWriter
	for range bodiesAtOnce {
		senders = append(senders, <-began)
	}
	eventually(t, func() bool {
		if s.handler.bodies.TryAcquire(1) {
			s.handler.bodies.Release(1)
			return false
		}
		return true
	}, "all room is taken")
	long := `{"after":"1h","payload":"` + strings.Repeat("x", 60<<10) + `"}`
	s.handler.patience = 20 * time.Millisecond
	a := s.raw(http.MethodPut, "/v1/topics/t/tasks/long", long)
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Contains(t, a.problem(t).Detail, "must have at most 262144 together")
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Equal(t, http.StatusCreated, s.raw(http.MethodPut, "/v1/topics/t/tasks/short", `{"after":"1h"}`).status)

	s.handler.patience = eternal
	for _, sender := range senders {
		_, err := sender.Write([]byte(`"after":"1h"}`))
		require.NoError(t, err)
		require.NoError(t, sender.Close())
	}
	for range bodiesAtOnce {
		require.Contains(t, []int{http.StatusOK, http.StatusCreated}, <-ended)
	}
	for range 3 * bodiesAtOnce { // ended requests have given their room back
		require.Less(t, s.raw(http.MethodPut, "/v1/topics/t/tasks/long", long).status, 300)
	}
}

// Anybody may send the token of a lease, as slowly as he likes. With a signature it needs no other token.
func TestBodiesOfStrangersTakeNoRoomOfOthers(t *testing.T) {
	s := startWith(t, newEngine(t), timeout.Config{FeedbackKeys: [][]byte{make([]byte, 32)}}, Config{SignedFeedback: true})
	s.handler.patience = eternal
	strange := func() int {
		body := struct{ io.Reader }{strings.NewReader(`{"token":"x"}`)} // of unknown length
		r := httptest.NewRequest(http.MethodPost, "http://localhost/v1/feedback", body)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w.Code
	}
	require.True(t, s.handler.bodies.TryAcquire(bodiesAtOnce*s.handler.cfg.MaxBody))
	require.Equal(t, http.StatusBadRequest, strange(), "no token of a lease")
	s.handler.bodies.Release(bodiesAtOnce * s.handler.cfg.MaxBody)
	eventually(t, func() bool { return s.handler.leases.TryAcquire(bodiesAtOnce * maxFeedback) }, "an ended request has given its room back")
	s.handler.patience = time.Millisecond
	require.Equal(t, http.StatusServiceUnavailable, strange())
	s.handler.patience = eternal
	require.Equal(t, http.StatusCreated, s.raw(http.MethodPut, "/v1/topics/t/tasks/a", `{"payload":"`+strings.Repeat("x", 5<<10)+`"}`).status)
	require.Equal(t, http.StatusBadRequest, s.raw(http.MethodPost, "/v1/feedback", `{"token":"x"}`).status, "short ones never wait")
}
