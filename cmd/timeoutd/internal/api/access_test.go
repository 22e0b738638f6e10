package api

import (
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	reader = "reader-0123456789"
	writer = "writer-0123456789"
	master = "master-0123456789"
)

func TestScopes(t *testing.T) {
	s := start(t, Config{Tokens: []Token{{reader, Read, ""}, {writer, Write, ""}, {master, Admin, ""}}, Page: http.NotFoundHandler()})
	routes, err := s.handler.routes()
	require.NoError(t, err)
	for _, route := range routes {
		method, path, _ := strings.Cut(strings.NewReplacer("{topic}", "t", "{id}", "a", "{$}", "").Replace(route.pattern), " ")
		path, _, _ = strings.Cut(path, "?")
		for _, c := range []struct {
			token string
			scope Scope
		}{{"", Open}, {"Bearer wrong-0123456789", Open}, {"Basic " + master, Open}, {"Bearer " + master + "x", Open}, {"Bearer ", Open}, {"Bearer " + reader, Read}, {"bearer " + writer, Write}, {"Bearer " + master, Admin}} {
			var header []string
			if c.token != "" {
				header = []string{"Authorization", c.token}
			}
			if path == "/" {
				continue // it is not ours here
			}
			a := s.raw(method, path, "", header...)
			switch {
			case c.scope >= route.scope:
				require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, a.status, route.pattern)
			case c.scope == Open:
				require.Equal(t, http.StatusUnauthorized, a.status, route.pattern)
				require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
				require.NotContains(t, a.body, master)
			default:
				require.Equal(t, http.StatusForbidden, a.status, route.pattern)
				require.Contains(t, a.problem(t).Detail, "must have "+route.scope.String())
			}
		}
	}
}

// Without tokens only the Host keeps a stranger's page out, so it is checked.
func TestHosts(t *testing.T) {
	open, closed, insecure := start(t, Config{}), start(t, Config{Tokens: []Token{{master, Admin, ""}}}), start(t, Config{AnyHost: true})
	closed.token = master
	for host, local := range map[string]bool{
		"localhost": true, "localhost:8077": true, "app.localhost": true, "127.0.0.1:1": true, "127.9.9.9": true, "[::1]:80": true, "LOCALHOST.": true,
		"evil.example": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false, "10.0.0.1": false, "[::2]:80": false, "evillocalhost": false,
	} {
		want := http.StatusForbidden
		if local {
			want = http.StatusOK
		}
		require.Equal(t, want, open.raw(http.MethodGet, "/v1/topics", "", "Host", host).status, host)
		require.Equal(t, want, open.raw(http.MethodGet, "/healthz", "", "Host", host).status, host)
		require.Equal(t, http.StatusOK, closed.raw(http.MethodGet, "/v1/topics", "", "Host", host).status, host)
		require.Equal(t, http.StatusOK, insecure.raw(http.MethodGet, "/v1/topics", "", "Host", host).status, host)
	}
}

// Nor does a proxy on the same machine let everybody in.
func TestForwardedRequests(t *testing.T) {
	open, closed := start(t, Config{}), start(t, Config{Tokens: []Token{{master, Admin, ""}}})
	closed.token = master
	for _, name := range forwarding {
		require.Equal(t, http.StatusForbidden, open.raw(http.MethodGet, "/v1/topics", "", name, "").status, name)
		require.Equal(t, http.StatusOK, closed.raw(http.MethodGet, "/v1/topics", "", name, "x").status, name)
	}
}

// No page of another site changes anything, with or without tokens.
func TestOtherSites(t *testing.T) {
	for _, cfg := range []Config{{}, {Tokens: []Token{{master, Admin, ""}}}} {
		s := start(t, cfg)
		s.token = master
		for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
			for _, where := range []string{"POST /v1/topics/t/pause", "POST /v1/topics/t/dead/drop", "DELETE /v1/topics/t", "PUT /v1/topics/t/tasks/a"} {
				method, path, _ := strings.Cut(where, " ")
				a := s.raw(method, path, "{}", header...)
				require.Equal(t, http.StatusForbidden, a.status, "%s %v", where, header)
				require.Contains(t, a.problem(t).Detail, "another site")
			}
		}
		require.Equal(t, http.StatusCreated, s.raw(http.MethodPut, "/v1/topics/t/tasks/a", "{}", "Sec-Fetch-Site", "same-origin", "Origin", s.url).status)
		a := s.raw(http.MethodGet, "/v1/topics", "", "Origin", "https://evil.example")
		require.Empty(t, a.header.Get("Access-Control-Allow-Origin"), "nor does one read anything")
		require.Equal(t, "same-origin", a.header.Get("Cross-Origin-Resource-Policy"))
	}
}

func TestTokensThatCouldBeGuessed(t *testing.T) {
	for _, secret := range []string{"", "short", strings.Repeat("x", 15), "with space 0123456789", "ümlaut-0123456789"} {
		_, err := New(nil, Config{Tokens: []Token{{secret, Read, ""}}})
		require.ErrorIs(t, err, timeout.ErrArgument)
		require.ErrorContains(t, err, "must have at least 16")
		if secret != "" {
			require.NotContains(t, err.Error(), secret)
		}
	}
}

func TestNegativeLimits(t *testing.T) {
	_, err := New(nil, Config{MaxBody: math.MaxInt64})
	require.ErrorIs(t, err, timeout.ErrArgument)
	require.ErrorContains(t, err, "MaxBody 9223372036854775807, must be at most 1073741824")
	_, err = New(nil, Config{MaxBody: -1})
	require.ErrorIs(t, err, timeout.ErrArgument)
	require.ErrorContains(t, err, "MaxBody -1")
}
