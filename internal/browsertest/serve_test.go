//go:build browser

package browsertest

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// swapped is a handler that can be another one later.
type swapped struct{ now atomic.Pointer[http.Handler] }

func (s *swapped) set(h http.Handler) { s.now.Store(&h) }

func (s *swapped) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*s.now.Load()).ServeHTTP(w, r) }

// serve serves a swapped handler on loopback.
func serve(t *testing.T, h http.Handler) (*swapped, string) {
	var handler swapped
	handler.set(h)
	s := httptest.NewServer(&handler)
	t.Cleanup(s.Close)
	return &handler, s.URL + "/debug/wheel"
}
