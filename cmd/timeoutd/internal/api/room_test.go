package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// together is an engine. It answers the second Get of a request when all room for answers is taken.
type together struct {
	engine.Engine
	full func() bool
}

func (e *together) Get(ctx context.Context, keys []engine.Key) ([]engine.Task, error) {
	for keys[0].ID == "second" && !e.full() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	return e.Engine.Get(ctx, keys)
}

// There is room for one of two answers. Each request would take half of it and wait for the rest.
func TestAnswersDoNotWaitForEachOther(t *testing.T) {
	e := &together{Engine: newEngine(t)}
	s := startOn(t, e, Config{})
	s.handler.patience = eternal
	s.handler.got = semaphore.NewWeighted(maxAnswer)
	e.full = func() bool {
		if s.handler.got.TryAcquire(1) {
			s.handler.got.Release(1)
			return false
		}
		return true
	}
	var keys []timeout.Key
	for i := range getSize + 1 {
		key := timeout.Key{Topic: "t", ID: fmt.Sprint(i)}
		size := maxAnswer / 2 / getSize
		if i == getSize {
			key.ID, size = "second", engine.MaxPayload
		}
		_, err := s.center.Set(t.Context(), timeout.Task{Topic: key.Topic, ID: key.ID, After: time.Hour, Payload: make([]byte, size)})
		require.NoError(t, err)
		keys = append(keys, key)
	}
	body, err := json.Marshal(map[string]any{"keys": keys})
	require.NoError(t, err)
	statuses := make(chan int, 2)
	for range 2 {
		go func() {
			res, err := s.http.Post(s.url+"/v1/tasks/get", "application/json", bytes.NewReader(body))
			if !assert.NoError(t, err) {
				statuses <- 0
				return
			}
			res.Body.Close()
			statuses <- res.StatusCode
		}()
	}
	require.Equal(t, http.StatusOK, <-statuses)
	require.Equal(t, http.StatusOK, <-statuses)
}

// watched is a writer with a call at the begin of the answer.
type watched struct {
	http.ResponseWriter
	begins func()
}

func (w watched) WriteHeader(status int) {
	w.begins()
	w.ResponseWriter.WriteHeader(status)
}

// An answer keeps no more room than its payloads need. Perhaps nobody reads it.
func TestAnAnswerGivesBackTheRoomThatItDoesNotNeed(t *testing.T) {
	s := start(t, Config{})
	_, err := s.center.Set(t.Context(), timeout.Task{Topic: "t", ID: "a", After: time.Hour, Payload: make([]byte, smallBody+1)})
	require.NoError(t, err)
	body := `{"keys":[{"topic":"t","id":"a"}` + strings.Repeat(`,{"topic":"t","id":"none"}`, getSize) + `]}`
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/tasks/get", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	rec, began := httptest.NewRecorder(), 0
	s.handler.ServeHTTP(watched{rec, func() {
		began++
		require.True(t, s.handler.got.TryAcquire(maxGot-smallBody-1))
		require.False(t, s.handler.got.TryAcquire(1))
		s.handler.got.Release(maxGot - smallBody - 1)
	}}, r)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, 1, began)
	require.Eventually(t, func() bool { return s.handler.got.TryAcquire(maxGot) }, eternal, time.Millisecond, "it is given back")
}

// fleeting is an engine with payloads of its own, and a weak reference to the last one.
type fleeting struct {
	engine.Engine
	last atomic.Value // a weak.Pointer[byte]
}

func (e *fleeting) Get(ctx context.Context, keys []engine.Key) ([]engine.Task, error) {
	tasks, err := e.Engine.Get(ctx, keys)
	for i := range tasks {
		tasks[i].Payload = bytes.Clone(tasks[i].Payload)
		e.last.Store(weak.Make(unsafe.SliceData(tasks[i].Payload)))
	}
	return tasks, err
}

// However many wait, their payloads are not in memory.
func TestAnAnswerThatWaitsForRoomKeepsNoPayloads(t *testing.T) {
	e := &fleeting{Engine: newEngine(t)}
	s := startOn(t, e, Config{})
	s.handler.patience = eternal
	_, err := s.center.Set(t.Context(), timeout.Task{Topic: "t", ID: "a", After: time.Hour, Payload: make([]byte, engine.MaxPayload)})
	require.NoError(t, err)
	for _, path := range []string{"/v1/tasks/get", "/v1/topics/t/tasks/a"} {
		require.True(t, s.handler.got.TryAcquire(maxGot))
		e.last = atomic.Value{}
		answered := make(chan answered)
		go func() {
			if path == "/v1/tasks/get" {
				answered <- s.raw(http.MethodPost, path, `{"keys":[{"topic":"t","id":"a"}]}`)
			} else {
				answered <- s.raw(http.MethodGet, path, "")
			}
		}()
		eventually(t, func() bool {
			runtime.GC()
			last, read := e.last.Load().(weak.Pointer[byte])
			return read && last.Value() == nil
		}, "it was read, and dropped")
		s.handler.got.Release(maxGot)
		a := <-answered
		require.Equal(t, http.StatusOK, a.status)
		require.Greater(t, len(a.body), engine.MaxPayload)
		eventually(t, func() bool { return s.handler.got.TryAcquire(maxGot) }, "the room is given back")
		s.handler.got.Release(maxGot)
	}
}
