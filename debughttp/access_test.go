package debughttp

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func TestOnlyThisMachineIsAnswered(t *testing.T) {
	h := newHandler(t, newKeeper(t, keepalive.Config{}), Config{})
	all := newHandler(t, newKeeper(t, keepalive.Config{}), Config{AllowRemote: true})
	for _, test := range []struct {
		remote, host string
		want         int
	}{
		{"127.0.0.1:1", "localhost", 200},
		{"127.0.0.1:1", "LocalHost:8080", 200},
		{"127.0.0.1:1", "localhost.:8080", 200},
		{"127.0.0.1:1", "gateway.localhost:8080", 200},
		{"127.9.9.9:1", "127.0.0.1:8080", 200},
		{"[::1]:1", "[::1]:8080", 200},
		{"[::1]:1", "[::1]", 200},
		{"[::ffff:127.0.0.1]:1", "127.0.0.1", 200},
		{"192.0.2.1:1", "localhost", 403},
		{"[2001:db8::1]:1", "[::1]", 403},
		{"[fe80::1%lo]:1", "[::1]", 403},
		{"10.0.0.1:1", "10.0.0.2", 403},
		{"", "localhost", 403},
		{"@", "localhost", 403},
		{"localhost:1", "localhost", 403},
		{"127.0.0.1", "localhost", 403},
		{"127.0.0.1:1", "evil.example", 403},
		{"127.0.0.1:1", "evil.example:8080", 403},
		{"127.0.0.1:1", "127.0.0.1.evil.example", 403},
		{"127.0.0.1:1", "localhost.evil.example", 403},
		{"127.0.0.1:1", "evillocalhost", 403},
		{"127.0.0.1:1", "192.0.2.1:8080", 403},
		{"127.0.0.1:1", "0.0.0.0:8080", 403},
		{"127.0.0.1:1", "", 403},
		{"127.0.0.1:1", "[::1", 200},
		{"127.0.0.1:1", "<script>", 403},
	} {
		t.Run("from="+test.remote+"/host="+test.host, func(t *testing.T) {
			w := ask(h, from(test.remote, test.host))
			require.Equal(t, test.want, w.Code)
			if test.want == http.StatusForbidden {
				require.Contains(t, w.Body.String(), "set AllowRemote in debughttp.Config")
				require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
			}
			require.Equal(t, http.StatusOK, ask(all, from(test.remote, test.host)).Code)
		})
	}
}

func TestARefusalSaysWhatWasWrong(t *testing.T) {
	h := newHandler(t, newKeeper(t, keepalive.Config{}), Config{})
	require.Contains(t, ask(h, from("192.0.2.1:5", "localhost")).Body.String(), `comes from "192.0.2.1:5"`)
	require.Contains(t, ask(h, from(local, "evil.example")).Body.String(), `host "evil.example" is not a name of loopback`)
}

// To a server behind a proxy of the same machine all requests come from loopback.
func TestAForwardedRequestIsNotLocal(t *testing.T) {
	h := newHandler(t, newKeeper(t, keepalive.Config{}), Config{})
	for _, header := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via"} {
		r := from(local, "localhost")
		r.Header.Set(header, "127.0.0.1")
		w := ask(h, r)
		require.Equal(t, http.StatusForbidden, w.Code, header)
		require.Contains(t, w.Body.String(), "was forwarded (header "+http.CanonicalHeaderKey(header)+")")

		// An empty line from the client, and then the proxy's.
		r.Header[http.CanonicalHeaderKey(header)] = []string{"", "192.0.2.1"}
		require.Equal(t, http.StatusForbidden, ask(h, r).Code, header)
	}
}

func TestAUnixSocketIsLocal(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	s := &httptest.Server{Listener: ln, Config: &http.Server{Handler: newHandler(t, newKeeper(t, keepalive.Config{}), Config{})}}
	s.Start()
	defer s.Close()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", ln.Addr().String())
		},
	}}
	resp, err := client.Get("http://whatever/?format=json")
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(body))
}
