package ssekeepalive

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// response is a response until it turns out to be an event stream, by its header. Then its writes and those of the
// comments take turns. It has the methods of net/http's responses. Flush and Hijack depend on the ResponseWriter inside:
// see shaped.
type response struct {
	http.ResponseWriter
	streams *Streams
	request *http.Request

	stream   *stream // or nil
	begun    bool    // the header has left, or is about to
	deadline time.Time
}

// flushing and hijacking are a response with more methods. Handlers ask for these to know what is possible.
type (
	flushing  struct{ *response }
	hijacking struct{ flushing }
)

// shaped returns a ResponseWriter with the methods of the one inside.
func (r *response) shaped() http.ResponseWriter {
	if _, ok := r.ResponseWriter.(http.Hijacker); ok {
		return hijacking{flushing{r}}
	}
	if canFlush(r.ResponseWriter) {
		return flushing{r}
	}
	return r
}

// canFlush reports whether http.ResponseController can flush w.
func canFlush(w http.ResponseWriter) bool {
	for {
		switch inner := w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return false
		}
	}
}

// begin is called before the header may leave.
func (r *response) begin(status int) {
	if r.begun { // from now on several goroutines may write
		return
	}
	r.begun = true
	if isEventStream(status, r.request, r.Header()) {
		r.stream = r.streams.start(r)
	}
}

// isEventStream reports whether a response is an event stream without an end.
func isEventStream(status int, r *http.Request, h http.Header) bool {
	if status != http.StatusOK || r.Method == http.MethodHead || h.Get("Content-Length") != "" {
		return false
	}
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}

// Unwrap is for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *response) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols { // others come before the header
		r.begin(status)
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *response) Write(p []byte) (int, error) {
	r.begin(http.StatusOK)
	if r.stream != nil {
		return r.stream.write(p)
	}
	return r.ResponseWriter.Write(p)
}

func (r *response) WriteString(s string) (int, error) {
	r.begin(http.StatusOK)
	if r.stream != nil {
		return r.stream.write([]byte(s))
	}
	return io.WriteString(r.ResponseWriter, s)
}

func (r *response) ReadFrom(src io.Reader) (int64, error) {
	r.begin(http.StatusOK)
	if r.stream != nil {
		return io.Copy(struct{ io.Writer }{r}, src)
	}
	return io.Copy(r.ResponseWriter, src)
}

// SetWriteDeadline is the handler's, by http.ResponseController.
func (r *response) SetWriteDeadline(t time.Time) error {
	if r.stream != nil {
		return r.stream.setDeadline(t)
	}
	r.deadline = t
	return setWriteDeadline(r.ResponseWriter, t)
}

func (r *response) Push(target string, opts *http.PushOptions) error {
	if pusher, ok := r.ResponseWriter.(http.Pusher); ok {
		return pusher.Push(target, opts)
	}
	return http.ErrNotSupported
}

// CloseNotify returns a nil channel if the ResponseWriter inside has no such method.
func (r *response) CloseNotify() <-chan bool {
	if notifier, ok := r.ResponseWriter.(interface{ CloseNotify() <-chan bool }); ok {
		return notifier.CloseNotify()
	}
	return nil
}

// end is called when the handler has returned, or panics.
func (r *response) end() {
	if r.stream != nil {
		r.stream.end()
	}
}

func (r flushing) Flush() { _ = r.FlushError() }

func (r flushing) FlushError() error {
	r.begin(http.StatusOK)
	if r.stream != nil {
		return r.stream.flush()
	}
	return flush(r.ResponseWriter)
}

func (r hijacking) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.end()
	return r.ResponseWriter.(http.Hijacker).Hijack()
}

func flush(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() }

func setWriteDeadline(w http.ResponseWriter, t time.Time) error {
	return http.NewResponseController(w).SetWriteDeadline(t)
}

// errReturned is the error of a write after the handler has returned: net/http would panic, or worse.
var errReturned = errors.New("ssekeepalive: the handler of the stream has returned")
