package ssekeepalive

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// piece is how many bytes have WriteTimeout to leave.
const piece = 64 << 10

// stream is an event stream whose handler has not returned. One goroutine at a time uses the ResponseWriter: busy says
// that there is one. Its timer is touched by each Flush, since bytes that are not flushed may not have left. The wheel
// visits it when it has been quiet for hop, and then the stream gets a comment, or the writing goroutine its end, or
// neither is due yet.
type stream struct {
	streams *Streams
	w       http.ResponseWriter // nil after the end
	remote  string
	timer   wheel.TimerOf[*stream]
	at      place // of the busy goroutine

	// mu guards the fields below. It is not held while something is written. It is held while a deadline is set, which
	// waits for nobody's socket: so each deadline is the last one, and none is set after the end.
	mu       sync.Mutex
	free     sync.Cond // busy has become false
	busy     bool
	visited  bool      // while it was busy
	since    time.Time // of the present write, or of its last piece
	deadline time.Time // the handler's, or zero
	lifted   bool      // there is no deadline of http.Server.WriteTimeout any more
	overdue  bool      // a comment is due, however long the stream has been quiet
	slow     bool      // ended by ErrSlowReader
	failed   bool      // a comment could not be written
	ended    bool      // the handler has returned
}

// acquire makes the stream busy. It waits for a comment under way.
func (s *stream) acquire() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.busy && !s.ended {
		s.free.Wait()
	}
	switch {
	case s.ended:
		return errReturned
	case s.slow:
		return ErrSlowReader
	}
	s.busy, s.since = true, time.Now()
	return nil
}

func (s *stream) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	s.free.Broadcast()
	if s.visited { // in vain
		s.visited = false
		s.timer.HandOver()
	}
}

// progress gives the next piece of a write its own time.
func (s *stream) progress() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Now()
}

// write is the Write of the handler.
func (s *stream) write(p []byte) (n int, err error) {
	if err := s.acquire(); err != nil {
		return 0, err
	}
	defer s.release()
	for {
		next := p[n:min(len(p), n+piece)]
		m, err := s.w.Write(next)
		s.at.pass(next[:m])
		n += m
		switch {
		case err != nil:
			return n, s.because(err)
		case m < len(next):
			return n, io.ErrShortWrite
		case n == len(p):
			return n, nil
		}
		s.progress()
	}
}

// flush is the Flush of the handler.
func (s *stream) flush() error {
	if err := s.acquire(); err != nil {
		return err
	}
	defer s.release()
	if err := flush(s.w); err != nil {
		return s.because(err)
	}
	s.timer.Touch()
	return nil
}

// because returns the error of a write to the handler.
func (s *stream) because(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slow {
		return fmt.Errorf("%w: %w", ErrSlowReader, err)
	}
	return err
}

// setDeadline is the SetWriteDeadline of the handler.
func (s *stream) setDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return errReturned
	case s.slow: // a later deadline would revive the write
		return ErrSlowReader
	}
	s.deadline = t
	return setWriteDeadline(s.w, t)
}

// end ends the stream for its handler. A comment under way is written first, within WriteTimeout: net/http could not end
// the response before either.
func (s *stream) end() {
	s.mu.Lock()
	first := !s.ended
	s.ended = true
	s.free.Broadcast()
	for s.busy {
		s.free.Wait()
	}
	if first && s.lifted && s.deadline.IsZero() && !s.slow { // net/http may have bytes left to write
		_ = setWriteDeadline(s.w, time.Now().Add(s.streams.bound))
	}
	s.w = nil // the wheel may keep the timer for a while
	s.mu.Unlock()
	if first {
		s.timer.Remove()
		s.streams.open.Add(-1)
	}
}

// visit runs on one of the wheel's workers.
func (s *stream) visit() {
	switch what, in := s.decide(); what {
	case wait:
		s.timer.Rearm(s.streams.wheel.Time(0) + in)
	case begin:
		s.timer.Touch() // the next visit looks at this write
		s.comment()
	case withhold:
		s.timer.Touch()
		s.streams.withheld.Add(1)
	case cut:
		s.timer.Remove()
		s.streams.log.Debug("ssekeepalive: ended the stream of a slow reader", "remote", s.remote)
	case leave:
		s.timer.Remove()
	}
}

type verdict uint8

const (
	wait     verdict = iota // for so long
	begin                   // a comment, and the stream is busy
	withhold                // a comment, since an event is under way
	cut                     // done: a write takes too long
	leave                   // the stream
)

// decide returns what is to be done now.
func (s *stream) decide() (what verdict, in time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.busy:
		left := s.streams.left(s.since)
		if left > 0 {
			s.visited = true
			return wait, min(left, s.streams.hop)
		}
		s.cut()
		return cut, 0
	case s.failed || s.ended:
		return leave, 0
	}
	if quiet := s.quiet(); quiet < s.streams.interval && !s.overdue {
		return wait, min(s.streams.interval-quiet, s.streams.hop)
	}
	s.overdue = false
	if !s.at.isBetweenEvents() {
		return withhold, 0
	}
	s.busy, s.since = true, time.Now()
	return begin, 0
}

// quiet returns how long ago the last bytes have left.
func (s *stream) quiet() time.Duration {
	touched, _ := s.timer.Touched()
	return s.streams.wheel.Time(0) - touched
}

// cut ends the stream of a slow reader. The write under way fails, and so do all others. net/http then ends the request's
// context. mu must be held.
func (s *stream) cut() {
	s.slow = true
	s.streams.slow.Add(1)
	if err := setWriteDeadline(s.w, time.Unix(1, 0)); err != nil {
		s.streams.log.Error("ssekeepalive: can't end the stream of a slow reader", "error", err)
	}
}

// comment writes a comment. The stream is busy.
func (s *stream) comment() {
	written := false
	defer func() { s.commented(written) }() // also after a panic of the ResponseWriter
	s.suspendDeadline(true)
	_, err := s.w.Write(s.streams.comment)
	if err == nil {
		err = flush(s.w)
	}
	s.suspendDeadline(false)
	written = err == nil
}

// commented notes a comment. If it could not be written, the reader is gone or slow, and net/http tells the handler.
func (s *stream) commented(written bool) {
	defer s.release()
	if written {
		s.timer.Touch()
		s.streams.comments.Add(1)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = true
	if !s.slow {
		s.streams.failed.Add(1)
	}
}

// suspendDeadline keeps the handler's deadline from a comment: it may be one of an earlier write, and have passed.
func (s *stream) suspendDeadline(suspend bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deadline.IsZero() || s.slow {
		return
	}
	t := s.deadline
	if suspend {
		t = time.Time{}
	}
	_ = setWriteDeadline(s.w, t)
}
