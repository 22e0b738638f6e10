package api

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/peers"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback/httpcall"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

const (
	reader = "reader-0123456789"
	writer = "writer-0123456789"
	master = "master-0123456789"
)

func TestScopes(t *testing.T) {
	s := start(t, Config{Tokens: []Token{{reader, Read, ""}, {writer, Write, ""}, {master, Admin, ""}}})
	routes := s.handler.routes()
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

// Whoever can set a callback sees it whole. Others see no secret of it, wherever it is shown.
func TestAReadTokenSeesNoSecretOfACallback(t *testing.T) {
	calls, err := httpcall.New(httpcall.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, calls.Close()) })
	s := startWith(t, newEngine(t), timeout.Config{All: true, Callers: map[string]timeout.Caller{httpcall.Kind: calls}},
		Config{Tokens: []Token{{reader, Read, ""}, {writer, Write, ""}, {master, Admin, ""}}})
	away := httptest.NewServer(http.RedirectHandler("http://s3cret@127.0.0.1/login?next=s3cret", http.StatusFound))
	t.Cleanup(away.Close)
	call := `{"kind":"http","target":"` + strings.Replace(away.URL, "http://", "http://user:s3cret@", 1) + `/hook?api_key=s3cret","header":{"Authorization":"Bearer s3cret"}}`
	s.token = master
	s.ask(http.StatusOK, http.MethodPut, "/v1/topics/t", `{"callback":`+call+`}`)
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/waits", `{"after":"1h","callback":`+call+`}`)
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/dies", `{"callback":`+call+`}`)
	s.run(nil)
	eventually(t, func() bool { return get[wire.TopicCounts](s, "/v1/topics/t").Counts.Dead == 1 }, "the target sends it elsewhere")
	for _, test := range []struct {
		where, body string
		sees        Scope // who sees the callback
	}{
		{"GET /v1/topics", "", Admin},
		{"GET /v1/topics/t", "", Admin},
		{"GET /v1/topics/t/tasks", "", Write},
		{"GET /v1/topics/t/tasks?state=dead", "", Write},
		{"GET /v1/topics/t/tasks/waits", "", Write},
		{"POST /v1/tasks/get", `{"keys":[{"topic":"t","id":"waits"}]}`, Write},
		{"GET /v1/topics/t/tasks/dies/executions", "", Admin + 1},
		{"GET /v1/topics/t/dead/causes", "", Admin + 1},
		{"GET /v1/stats", "", Admin + 1},
		{"GET /metrics", "", Admin + 1},
	} {
		for token, scope := range map[string]Scope{reader: Read, writer: Write, master: Admin} {
			method, path, _ := strings.Cut(test.where, " ")
			a := s.raw(method, path, test.body, "Authorization", "Bearer "+token)
			require.Equal(t, http.StatusOK, a.status)
			require.Equal(t, scope >= test.sees, strings.Contains(a.body, "Bearer s3cret"), "%s as %v: %s", test.where, scope, a.body)
			require.Equal(t, scope >= test.sees, strings.Contains(a.body, "s3cret"), "%s as %v: %s", test.where, scope, a.body)
		}
	}
	s.token = reader
	shown := get[wire.TopicCounts](s, "/v1/topics/t").Callback
	require.Equal(t, map[string]string{"Authorization": "***"}, shown.Header)
	require.Equal(t, strings.Replace(away.URL, "http://", "http://***@", 1)+"/hook?***", shown.Target)
	s.token = master
	body, err := json.Marshal(wire.Topic{Callback: shown})
	require.NoError(t, err)
	require.Contains(t, s.raw(http.MethodPut, "/v1/topics/t", string(body)).problem(t).Detail, "callback with *** in place of a secret, must have the secret")

	open := startWith(t, newEngine(t), timeout.Config{Callers: map[string]timeout.Caller{httpcall.Kind: calls}}, Config{})
	open.ask(http.StatusOK, http.MethodPut, "/v1/topics/t", `{"callback":`+call+`}`)
	require.Equal(t, "Bearer s3cret", get[wire.TopicCounts](open, "/v1/topics/t").Callback.Header["Authorization"], "everybody may set it")
}

// The figures of a node are all that the token sent to other nodes is good for.
func TestPeersAreAskedWithATokenForNothingElse(t *testing.T) {
	s := start(t, Config{Tokens: []Token{{reader, Read, ""}, {"second-0123456789", Read, ""}, {master, Admin, ""}}})
	got := make(chan string, 1)
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Authorization") }))
	t.Cleanup(stranger.Close)
	others, err := peers.New([]string{s.url, stranger.URL}, PeerToken(reader))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, others.Close()) })
	answers, errs := others.Ask(t.Context())
	require.Len(t, answers, 1, "%v", errs)
	kind, token, _ := strings.Cut(<-got, " ")
	require.Equal(t, "Bearer", kind)
	require.NotContains(t, token, reader)

	routes := s.handler.routes()
	for _, route := range routes {
		method, path, _ := strings.Cut(strings.NewReplacer("{topic}", "t", "{id}", "a").Replace(route.pattern), " ")
		path, _, _ = strings.Cut(path, "?")
		refused := s.raw(method, path, "", "Authorization", "Bearer "+token).status == http.StatusForbidden
		require.Equal(t, route.scope > Peer, refused, route.pattern)
	}
	s.token = PeerToken("second-0123456789")
	s.ask(http.StatusOK, http.MethodGet, "/v1/here", "")
	s.token = PeerToken(master)
	s.ask(http.StatusUnauthorized, http.MethodGet, "/v1/here", "")
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
