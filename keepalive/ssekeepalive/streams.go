package ssekeepalive

import (
	"log/slog"
	"math"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/argument"
	"github.com/heartwheel-go/heartwheel/wheel"
)

var (
	// ErrArgument is the error for an argument out of bounds. The wrapping error names the value and the limit.
	ErrArgument error = argument.Error("ssekeepalive")

	// ErrSlowReader is wrapped by the error of a write that has taken longer than Config.WriteTimeout, and of each
	// later one to the same stream. It is a net.Error with Timeout, and errors.Is finds os.ErrDeadlineExceeded in it.
	ErrSlowReader error = slowReader{}
)

type slowReader struct{}

func (slowReader) Error() string        { return "ssekeepalive: the reader of the stream is too slow" }
func (slowReader) Timeout() bool        { return true }
func (slowReader) Temporary() bool      { return false }
func (slowReader) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// maxWriting bounds the comments being written at the same time. It is as good as no bound: a blocking one must not hold
// up others, and WriteTimeout ends it. The wheel only has as many workers as are needed.
const maxWriting = 1 << 20

// Streams sends the comments of many event streams. It has one timing wheel, and neither a goroutine nor a timer per
// stream. [New] makes one.
//
// All methods are safe for concurrent use.
type Streams struct {
	wheel         *wheel.WheelOf[*stream]
	made          chan struct{} // closed when New is done; the wheel runs before
	comment       []byte
	interval, hop time.Duration
	bound         time.Duration // WriteTimeout, or negative
	log           *slog.Logger
	encoded       sync.Once

	open                             atomic.Int64
	comments, withheld, slow, failed atomic.Uint64
}

// New makes a Streams and starts its wheel. It returns [ErrArgument], wrapped with the value and its limit, if the
// config asks for something impossible.
func New(cfg Config) (*Streams, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	k := &Streams{
		made:     make(chan struct{}),
		comment:  []byte(": " + cfg.Comment + "\n\n"),
		interval: cfg.Interval,
		hop:      cfg.hop(),
		bound:    cfg.WriteTimeout,
		log:      cfg.Logger,
	}
	k.wheel, err = wheel.NewOf(wheel.Config{
		Tick:    cfg.tick(),
		Workers: maxWriting,
		OnStall: k.stalled,
		OnPanic: func(value any, stack []byte) {
			k.log.Error("ssekeepalive: a ResponseWriter panicked", "panic", value, "stack", string(stack))
		},
	}, wheel.Funcs[*stream]{Due: func(_ *wheel.TimerOf[*stream], s *stream) { s.visit() }})
	if err != nil {
		return nil, err
	}
	close(k.made)
	return k, nil
}

// Wrap returns a handler that calls next, and keeps its event streams alive: those responses with status 200 and the
// Content-Type text/event-stream, with neither a Content-Length nor a Content-Encoding. It is for a single route as
// well as for all of a server. See the package for all it does to a response.
//
// Wrap panics without a handler, or without a Streams from [New].
func (k *Streams) Wrap(next http.Handler) http.Handler {
	if k == nil || k.wheel == nil {
		panic("ssekeepalive: Streams not made by New")
	}
	if next == nil {
		panic("ssekeepalive: Wrap needs a handler")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		res := &response{ResponseWriter: w, streams: k, request: r}
		defer res.end()
		next.ServeHTTP(res.shaped(), r)
	})
}

// start starts the stream of a response, or returns nil if it can't have comments.
func (k *Streams) start(r *response) *stream {
	if e := r.Header().Get("Content-Encoding"); e != "" && e != "identity" {
		k.encoded.Do(func() {
			k.log.Warn("ssekeepalive: an encoded event stream gets no comments: the encoder must be around Wrap", "encoding", e)
		})
		return nil
	}
	s := &stream{streams: k, w: r.ResponseWriter, remote: r.request.RemoteAddr, deadline: r.deadline}
	s.free.L = &s.mu
	if k.wheel.Start(&s.timer, s, k.hop) != nil {
		return nil // after Close
	}
	k.open.Add(1)
	if srv, ok := r.request.Context().Value(http.ServerContextKey).(*http.Server); ok && srv.WriteTimeout > 0 && k.bound > 0 && s.deadline.IsZero() {
		s.lifted = true
		_ = setWriteDeadline(s.w, time.Time{})
	}
	return s
}

// left returns how much time a write has that began at that instant. The time of stalls does not count.
func (k *Streams) left(since time.Time) time.Duration {
	if k.bound < 0 {
		return math.MaxInt64
	}
	return k.bound - (k.wheel.Time(0) - k.wheel.Time(time.Since(since)))
}

// stalled sends a comment to all: this process did not run for a while, but the time of proxies went on.
func (k *Streams) stalled(time.Duration) {
	<-k.made
	for t, s := range k.wheel.All() {
		s.mu.Lock()
		s.overdue = true
		s.mu.Unlock()
		t.HandOver()
	}
}

// Close ends the comments and the bounds of writes. Open streams stay open. So end the server first: its event streams
// end with their handlers, see httpkeepalive.Ending. Later streams are left alone. Close does not wait for comments
// being written. Closing again does nothing. It always returns nil.
func (k *Streams) Close() error {
	if k != nil && k.wheel != nil {
		k.wheel.Stop()
	}
	return nil
}

// Stats are the figures of a [Streams] at one moment.
type Stats struct {
	Streams  int    // open ones: their handlers have not returned
	Comments uint64 // sent
	Withheld uint64 // comments that were due in the middle of an event: once per Interval
	Slow     uint64 // streams ended by WriteTimeout
	Failed   uint64 // streams with a comment that could not be written: most often, their reader was gone or slow
	Wheel    wheel.Stats
}

// Stats returns the figures.
func (k *Streams) Stats() Stats {
	if k == nil || k.wheel == nil {
		return Stats{}
	}
	return Stats{
		Streams:  int(k.open.Load()),
		Comments: k.comments.Load(),
		Withheld: k.withheld.Load(),
		Slow:     k.slow.Load(),
		Failed:   k.failed.Load(),
		Wheel:    k.wheel.Stats(),
	}
}
