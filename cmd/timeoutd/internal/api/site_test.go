package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

func TestMain(m *testing.M) { testmain.Run(m) }

const eternal = 5 * time.Minute // how long a test waits for an event

// site is an API on a center, over real HTTP.
type site struct {
	t       *testing.T
	center  *timeout.Center
	handler *Handler
	url     string
	token   string
	http    *http.Client
}

func start(t *testing.T, cfg Config) *site { return startOn(t, newEngine(t), cfg) }

func startOn(t *testing.T, e engine.Engine, cfg Config) *site {
	return startWith(t, e, timeout.Config{}, cfg)
}

func startWith(t *testing.T, e engine.Engine, of timeout.Config, cfg Config) *site {
	of.Topic, of.Poll, of.TTL = timeout.Topic{Retries: -1, Retain: time.Hour}, 10*time.Millisecond, cmp.Or(of.TTL, time.Second)
	center, err := timeout.New(e, of)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, center.Close()) })
	cfg.RequestTimeout = cmp.Or(cfg.RequestTimeout, eternal) // a request of a test may take long on a busy machine
	handler, err := New(center, cfg)
	require.NoError(t, err)
	s := serveOn(t, center, handler)
	s.handler = handler
	return s
}

func serveOn(t *testing.T, center *timeout.Center, handler http.Handler) *site {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s := &site{t: t, center: center, url: server.URL, http: &http.Client{
		Timeout: eternal, Transport: &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// run makes the center serve topics.
func (s *site) run(handlers map[string]timeout.Handler) {
	for topic, handler := range handlers {
		require.NoError(s.t, s.center.Handle(topic, handler))
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.center.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		require.NoError(s.t, <-ended)
	})
}

// answered is an answer.
type answered struct {
	status int
	header http.Header
	body   string
}

// raw makes a request. The request may break the description, an error in the answer may not.
func (s *site) raw(method, path, body string, header ...string) answered {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	res, err := s.http.Do(r)
	require.NoError(s.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	a := answered{res.StatusCode, res.Header, string(text)}
	if res.StatusCode >= 300 && res.StatusCode != http.StatusPreconditionFailed {
		a.problem(s.t)
	}
	return a
}

// problem returns the error in an answer. It must be complete.
func (a answered) problem(t *testing.T) wire.Problem {
	t.Helper()
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"), "%d %s", a.status, a.body)
	var p wire.Problem
	require.NoError(t, json.Unmarshal([]byte(a.body), &p), a.body)
	require.Equal(t, a.status, p.Status)
	require.Equal(t, http.StatusText(a.status), p.Title)
	require.NotEmpty(t, p.Detail)
	return p
}

// ask makes a request, and checks the request and its answer against the description.
func (s *site) ask(status int, method, path, body string, header ...string) string {
	s.t.Helper()
	a := s.raw(method, path, body, header...)
	require.Equal(s.t, status, a.status, a.body)
	s.validate(method, path, body, header, a)
	return a.body
}

// get is ask for GET, read into a value.
func get[T any](s *site, path string) (value T) {
	s.t.Helper()
	read(s.t, s.ask(http.StatusOK, http.MethodGet, path, ""), &value)
	return value
}

// do is ask with a body, read into a value.
func do[T any](s *site, method, path, body string, header ...string) (value T) {
	s.t.Helper()
	read(s.t, s.ask(http.StatusOK, method, path, body, header...), &value)
	return value
}

func read(t *testing.T, body string, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(into), body)
}

// description is the OpenAPI file, read by another library.
var description = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(openAPI)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

var described = sync.OnceValues(func() (routers.Router, error) {
	doc, err := description()
	if err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(doc)
})

// validate checks a request and its answer against the description.
func (s *site) validate(method, path, body string, header []string, a answered) {
	s.t.Helper()
	router, err := described()
	require.NoError(s.t, err)
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	route, params, err := router.FindRoute(r)
	require.NoError(s.t, err, "%s %s is not in openapi.yaml", method, path)
	for name, value := range params { // the router leaves them as they are in the path
		params[name], err = url.PathUnescape(value)
		require.NoError(s.t, err)
	}
	in := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	}
	if a.status < 300 {
		require.NoError(s.t, openapi3filter.ValidateRequest(s.t.Context(), in), body)
	}
	err = openapi3filter.ValidateResponse(s.t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader([]byte(a.body))),
	})
	require.NoError(s.t, err, a.body)
}

// eventually waits until a condition holds.
func eventually(t *testing.T, holds func() bool, what string) {
	t.Helper()
	require.Eventually(t, holds, eternal, 5*time.Millisecond, what)
}

var errBroken = errors.New("it is broken")
