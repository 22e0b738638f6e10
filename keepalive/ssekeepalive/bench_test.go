package ssekeepalive

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// discarding is a ResponseWriter that costs nothing.
type discarding struct{ header http.Header }

func (d discarding) Header() http.Header { return d.header }

func (discarding) WriteHeader(int) {}

func (discarding) Write(p []byte) (int, error) { return len(p), nil }

func (discarding) Flush() {}

// BenchmarkEvent is the cost of an event: a Write and a Flush.
func BenchmarkEvent(b *testing.B) {
	event := []byte("data: a short event\n\n")
	events := func(b *testing.B) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			controller := http.NewResponseController(w)
			for b.Loop() {
				_, _ = w.Write(event)
				_ = controller.Flush()
			}
		})
	}
	w := discarding{http.Header{"Content-Type": {"text/event-stream"}}}
	b.Run("impl=net/http", func(b *testing.B) {
		b.ReportAllocs()
		events(b).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	})
	b.Run("impl=ssekeepalive", func(b *testing.B) {
		k := newStreams(b, Config{})
		b.ReportAllocs()
		k.Wrap(events(b)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	})
}
