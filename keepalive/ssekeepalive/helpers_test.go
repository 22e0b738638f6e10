package ssekeepalive

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const interval = 10 * time.Second

// late is how much later than its instant something may be, by two ticks of the wheel.
const late = 200 * time.Millisecond

func newStreams(t testing.TB, cfg Config) *Streams {
	t.Helper()
	k, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	return k
}

// fakeWriter is a ResponseWriter with a reader that may stop to read. It fails the test if two goroutines use it at the
// same time.
type fakeWriter struct {
	t         *testing.T
	header    http.Header
	using     sync.Mutex
	onWrite   func() // may be nil
	deadlines []time.Time

	mu       sync.Mutex
	stopped  bool          // to read
	changed  chan struct{} // closed when stopped or deadline changes
	deadline time.Time
	buffered []byte
	sent     []write
}

type write struct {
	at    time.Time
	bytes string
}

func newFakeWriter(t *testing.T) *fakeWriter {
	return &fakeWriter{t: t, header: http.Header{"Content-Type": {"text/event-stream"}}, changed: make(chan struct{})}
}

func (w *fakeWriter) Header() http.Header { return w.header }

func (w *fakeWriter) WriteHeader(int) {}

func (w *fakeWriter) use() func() {
	require.True(w.t, w.using.TryLock(), "two writes at the same time")
	return w.using.Unlock
}

func (w *fakeWriter) Write(p []byte) (int, error) {
	defer w.use()()
	if w.onWrite != nil {
		w.onWrite()
	}
	if err := w.wait(); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buffered = append(w.buffered, p...)
	return len(p), nil
}

func (w *fakeWriter) FlushError() error {
	defer w.use()()
	if err := w.wait(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, write{time.Now(), string(w.buffered)})
	w.buffered = nil
	return nil
}

// wait waits until the reader reads, or the deadline has passed.
func (w *fakeWriter) wait() error {
	for {
		w.mu.Lock()
		stopped, changed, deadline := w.stopped, w.changed, w.deadline
		w.mu.Unlock()
		after := make(<-chan time.Time)
		if !deadline.IsZero() {
			if !time.Now().Before(deadline) {
				return os.ErrDeadlineExceeded
			}
			after = time.After(time.Until(deadline))
		}
		if !stopped {
			return nil
		}
		select {
		case <-changed:
		case <-after:
		}
	}
}

func (w *fakeWriter) SetWriteDeadline(at time.Time) error {
	w.change(func() { w.deadline = at; w.deadlines = append(w.deadlines, at) })
	return nil
}

// read makes the reader read on, or not.
func (w *fakeWriter) read(on bool) { w.change(func() { w.stopped = !on }) }

func (w *fakeWriter) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *fakeWriter) all() []write {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]write(nil), w.sent...)
}

func (w *fakeWriter) said() string {
	var all bytes.Buffer
	for _, s := range w.all() {
		all.WriteString(s.bytes)
	}
	return all.String()
}

// serve calls a handler wrapped by k.
func serve(k *Streams, w http.ResponseWriter, h http.HandlerFunc) {
	k.Wrap(h).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
}

// quietly is a handler that opens its stream and says nothing for a while.
func quietly(d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		time.Sleep(d)
	}
}

// send writes and flushes.
func send(w http.ResponseWriter, what string) error {
	if _, err := w.Write([]byte(what)); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
