package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/api"
)

const (
	// patience is how long a server may take for an answer: longer than its own limit.
	patience = 90 * time.Second

	// maxAnswer is the longest answer, in bytes.
	maxAnswer = 64 << 20
)

// client talks to a server.
type client struct {
	base  string
	token string
	http  *http.Client
}

func newClient(address string, env func(string) (string, bool)) (client, error) {
	if address == "" {
		address, _ = env("TIMEOUTD_URL")
	}
	if address == "" {
		address = defaultURL
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return client{}, fmt.Errorf("the server's URL %.100q, must be as %s", address, defaultURL)
	}
	token, _ := env("TIMEOUTD_TOKEN")
	return client{base: strings.TrimSuffix(u.String(), "/"), token: strings.TrimSpace(token), http: &http.Client{
		Timeout:   patience,
		Transport: http.DefaultTransport.(*http.Transport).Clone(),
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the token is for nobody else
		},
	}}, nil
}

func (c client) close() { c.http.CloseIdleConnections() }

// call makes a request, and returns the answer's body. An error of the server is returned as
// an api.Problem.
func (c client) call(ctx context.Context, method, path string, body any, header ...string) ([]byte, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: the answer ended early: %w", method, path, err)
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("%s %s: the answer has more than %d bytes", method, path, maxAnswer)
	case res.StatusCode == http.StatusPreconditionFailed, res.StatusCode < 300:
		return text, nil
	}
	var told api.Problem
	if json.Unmarshal(text, &told) != nil || told.Detail == "" {
		return nil, fmt.Errorf("%s %s: %s: %.200s", method, path, res.Status, text)
	}
	return nil, told
}

// ask is call with the answer read into a value. With -json it prints the answer instead, and
// returns false.
func (s *session) ask(ctx context.Context, method, path string, body, into any, header ...string) (more bool, err error) {
	text, err := s.call(ctx, method, path, body, header...)
	if err != nil {
		return false, err
	}
	if s.asJSON {
		_, err = s.out.Write(text)
		return false, err
	}
	if into == nil {
		return true, nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return false, fmt.Errorf("%s %s: the answer makes no sense: %w", method, path, err)
	}
	return true, nil
}

// status returns the status of a server's error, or 0.
func status(err error) int {
	var told api.Problem
	if errors.As(err, &told) {
		return told.Status
	}
	return 0
}

func topicPath(topic string) string { return "/v1/topics/" + segment(topic) }

func taskPath(topic, id string) string { return topicPath(topic) + "/tasks/" + segment(id) }

// segment escapes a part of a path.
func segment(text string) string { return url.PathEscape(text) }
