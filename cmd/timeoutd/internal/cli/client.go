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
	if address == "" {
		address, _ = env("TIMEOUTD_URL")
	}
	token, _ := env("TIMEOUTD_TOKEN")
	said.RoundTripper = timeoutclient.NewTransport()
	return timeoutclient.New(cmp.Or(address, defaultURL), timeoutclient.Config{
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

// done reports whether a command ends after a call: it has failed, or the answers since the last call
// of done were printed with -json.
func (s *session) done(err error) (bool, error) {
	if err == nil && s.asJSON {
		_, err = s.said.text.WriteTo(s.out)
		return true, err
	}
	s.said.text.Reset()
	return err != nil, err
}

// say prints a line about a call, unless done ends the command.
func (s *session) say(err error, format string, args ...any) error {
	if done, err := s.done(err); done {
		return err
	}
	_, err = fmt.Fprintf(s.out, format+"\n", args...)
	return err
}

// show prints a table about a call, unless done ends the command.
func (s *session) show(err error, t table) error {
	if done, err := s.done(err); done {
		return err
	}
	return t.Flush()
}
