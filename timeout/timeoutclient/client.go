package timeoutclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	// patience is how long a server may take for an answer: longer than its own limit.
	patience = 90 * time.Second

	// maxAnswer is the longest answer, in bytes.
	maxAnswer = 64 << 20

	// pingAfter and pingTimeout are for HTTP/2. There all calls share a connection, so they would wait
	// on a dead one one after the other.
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second

	// maxIdle is how many connections wait for more calls. net/http keeps two of a host.
	maxIdle = 100
)

// Config configures a Client. The zero value is useful.
type Config struct {
	// Token is one of the server's tokens. Empty means none.
	Token string

	// HTTPClient makes the requests. It follows no redirects, whatever it says: the token is for
	// nobody else. Nil means a client of its own, with NewTransport and a limit of 90 s for a request.
	HTTPClient *http.Client
}

// Client talks to a timeoutd. New makes one. It may be used by several goroutines at the same time.
type Client struct {
	base  string
	token string
	http  http.Client
}

// New makes a client for the server at a URL such as http://127.0.0.1:8077. It makes no request yet.
// The error wraps engine.ErrArgument.
func New(address string, cfg Config) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.ForceQuery || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("%w: the server's URL %.100q, must be as http://127.0.0.1:8077", engine.ErrArgument, withoutSecrets(address))
	}
	c := &Client{base: strings.TrimSuffix(u.String(), "/"), token: strings.TrimSpace(cfg.Token)}
	if cfg.HTTPClient != nil {
		c.http = *cfg.HTTPClient
	} else {
		c.http = http.Client{Timeout: patience, Transport: NewTransport()}
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// withoutSecrets returns a URL without a password and without a query.
func withoutSecrets(address string) string {
	address, _, _ = strings.Cut(address, "?")
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		address = "…" + address[at:]
	}
	return address
}

// NewTransport returns the transport of a client without Config.HTTPClient, for an HTTPClient that adds
// something to it. It is net/http's with more idle connections, and leaves a dead connection of HTTP/2
// soon. If a program has put another one in the place of http.DefaultTransport, it is that one.
func NewTransport() http.RoundTripper {
	usual, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	usual = usual.Clone()
	usual.MaxIdleConns, usual.MaxIdleConnsPerHost = maxIdle, maxIdle
	if usual.HTTP2 == nil {
		usual.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
	}
	return usual
}

// Close closes idle connections, those of Config.HTTPClient, too.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// place is a path, or the error of what would be in it.
type place struct {
	path string
	err  error
}

// topicAt returns the place of a topic, and what follows it.
func topicAt(topic, rest string) place {
	return place{"/v1/topics/" + url.PathEscape(topic) + rest, engine.CheckTopic(topic)}
}

// taskAt returns the place of a task, and what follows it.
func taskAt(key engine.Key, rest string) place {
	return place{topicAt(key.Topic, "/tasks/"+url.PathEscape(key.ID)+rest).path, key.Check()} // also of "..", before it is in a path
}

// pathless reports whether an id fits into no path: "/" counts as a part of the path's form.
func pathless(id string) bool { return id == "/" }

// ask makes a request with a body, if it is not nil, and returns the answer. It is zero beside an error.
func ask[T any](ctx context.Context, c *Client, method string, at place, body any) (answer T, err error) {
	if err = c.call(ctx, method, at, body, &answer); err != nil {
		answer = *new(T)
	}
	return answer, err
}

// call makes a request with a body, if it is not nil, and reads the answer into a value, if it is not
// nil.
func (c *Client) call(ctx context.Context, method string, at place, body, into any, header ...string) error {
	if at.err != nil {
		return at.err
	}
	path := at.path
	r, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: the answer ended early: %w", method, path, err)
	case len(text) > maxAnswer:
		return fmt.Errorf("%s %s: the answer has more than %d bytes", method, path, maxAnswer)
	case into == nil && res.StatusCode == http.StatusNoContent:
		return nil
	case into == nil, res.StatusCode >= http.StatusMultipleChoices && !isKept(res, text):
		return errorOf(method, path, res, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s %s: the answer makes no sense: %w", method, path, err)
	}
	return nil
}

// isKept reports whether an answer says that an existing task stays as it is.
func isKept(res *http.Response, text []byte) bool {
	var found struct {
		Was *engine.State `json:"was"`
	}
	return res.StatusCode == http.StatusPreconditionFailed && json.Unmarshal(text, &found) == nil && found.Was != nil
}

func (c *Client) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	text := new(bytes.Buffer)
	if body != nil {
		e := json.NewEncoder(text)
		e.SetEscapeHTML(false) // it would change a payload
		if err := e.Encode(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, text)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r, nil
}
