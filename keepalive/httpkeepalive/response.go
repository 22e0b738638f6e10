package httpkeepalive

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// sayClose has a response say that its connection ends. With HTTP/2, net/http sends a GOAWAY for it.
func sayClose(rw http.ResponseWriter) { rw.Header().Set("Connection", "close") }

// announcing returns a response that looks whether its connection is to end when its header is written. It
// has the methods of the response, as far as they belong to an interface. For others there is Unwrap.
func (c *connection) announcing(rw http.ResponseWriter) http.ResponseWriter {
	r := response{ResponseWriter: rw, connection: c}
	switch rw := rw.(type) {
	case http1Writer:
		return &http1Response{r, rw}
	case http2Writer:
		return &http2Response{r, rw}
	}
	return rw
}

// http1Writer and http2Writer are the responses of net/http.
type (
	http1Writer interface {
		http.Hijacker
		http.Flusher
		io.ReaderFrom
		io.StringWriter
		CloseNotify() <-chan bool
	}
	http2Writer interface {
		http.Pusher
		http.Flusher
		io.StringWriter
		CloseNotify() <-chan bool
	}
)

// response is what both have.
type response struct {
	http.ResponseWriter
	connection *connection
	looked     bool
}

// look is called before the header may be written.
func (r *response) look() {
	if !r.looked && r.connection.isEnding() {
		sayClose(r.ResponseWriter)
	}
	r.looked = true
}

// Unwrap is for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *response) WriteHeader(status int) {
	if status >= http.StatusOK { // others come before the header, or end HTTP here
		r.look()
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *response) Write(p []byte) (int, error) {
	r.look()
	return r.ResponseWriter.Write(p)
}

func (r *response) WriteString(s string) (int, error) {
	r.look()
	return io.WriteString(r.ResponseWriter, s)
}

func (r *response) FlushError() error {
	r.look()
	return http.NewResponseController(r.ResponseWriter).Flush()
}

func (r *response) Flush() { _ = r.FlushError() }

type http1Response struct {
	response
	http1 http1Writer
}

func (r *http1Response) CloseNotify() <-chan bool { return r.http1.CloseNotify() }

func (r *http1Response) Hijack() (net.Conn, *bufio.ReadWriter, error) { return r.http1.Hijack() }

func (r *http1Response) ReadFrom(src io.Reader) (int64, error) {
	r.look()
	return r.http1.ReadFrom(src)
}

type http2Response struct {
	response
	http2 http2Writer
}

func (r *http2Response) CloseNotify() <-chan bool { return r.http2.CloseNotify() }

func (r *http2Response) Push(target string, opts *http.PushOptions) error {
	return r.http2.Push(target, opts)
}
