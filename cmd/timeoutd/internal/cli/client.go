package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
)

// patience is how long a server may take for an answer: longer than its own limit.
const patience = 90 * time.Second

func newClient(address string, env func(string) (string, bool), said *recorder) (*timeoutclient.Client, error) {
	usual, _ := env("TIMEOUTD_URL")
	token, _ := env("TIMEOUTD_TOKEN")
	said.RoundTripper = timeoutclient.NewTransport()
	return timeoutclient.New(cmp.Or(address, usual, defaultURL), timeoutclient.Config{
		Token: token, HTTPClient: &http.Client{Timeout: patience, Transport: said},
	})
}

// recorder keeps the text of the answers, for -json.
type recorder struct {
	http.RoundTripper
	keeps bool // false: nobody will ask for the text
	text  bytes.Buffer
}

// RoundTrip makes a request.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := r.RoundTripper.RoundTrip(req)
	if err == nil && r.keeps {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(res.Body, &r.text), res.Body}
	}
	return res, err
}

// CloseIdleConnections is for timeoutclient: it leaves connections that may be dead.
func (r *recorder) CloseIdleConnections() {
	(&http.Client{Transport: r.RoundTripper}).CloseIdleConnections()
}

// answered prints the answers since its last call with -json, unless the call has failed.
func (s *session) answered(err error) error {
	if err == nil {
		_, err = s.said.text.WriteTo(s.stdout)
	}
	s.said.text.Reset()
	return err
}

// say prints a line about a call that was answered.
func (s *session) say(err error, format string, args ...any) error {
	if err = s.answered(err); err == nil {
		_, err = fmt.Fprintf(s.out, format+"\n", args...)
	}
	return err
}

// show prints a table about a call that was answered.
func (s *session) show(err error, t table) error {
	if err = s.answered(err); err == nil {
		err = t.Flush()
	}
	return err
}
