package debughttp

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func TestCheckHost(t *testing.T) {
	answers := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	none, err := CheckHost(answers, Hosts{})
	require.NoError(t, err)
	some, err := CheckHost(answers, Hosts{Names: []string{"Gateway.example", "other."}, Setting: "-hosts"})
	require.NoError(t, err)
	for host, want := range map[string]struct{ none, some int }{
		"":                        {200, 200},
		"127.0.0.1":               {200, 200},
		"10.1.2.3:9001":           {200, 200},
		"0.0.0.0:1":               {200, 200},
		"[::1]":                   {200, 200},
		"[2001:db8::1]:9001":      {200, 200},
		"[fe80::1%25eth0]:9001":   {200, 200},
		"localhost":               {200, 200},
		"LocalHost.:9001":         {200, 200},
		"gateway.localhost:9001":  {200, 200},
		"gateway.example":         {403, 200},
		"GATEWAY.EXAMPLE.:9001":   {403, 200},
		"other:9001":              {403, 200},
		"evil.example":            {403, 403},
		"gateway.example.evil":    {403, 403},
		"a.gateway.example":       {403, 403},
		"localhost.evil.example":  {403, 403},
		"127.0.0.1.evil.example":  {403, 403},
		"evillocalhost":           {403, 403},
		"127.1":                   {403, 403},
		"2130706433":              {403, 403},
		"10.0.0.1:1:2":            {403, 403},
		"<script>":                {403, 403},
		strings.Repeat("x", 2000): {403, 403},
	} {
		// The request may come from anywhere.
		require.Equal(t, want.none, ask(none, from("192.0.2.1:1", host)).Code, host)
		w := ask(some, from("192.0.2.1:1", host))
		require.Equal(t, want.some, w.Code, host)
		if want.some == http.StatusForbidden {
			require.Contains(t, w.Body.String(), `the host "`+host[:min(len(host), maxName)]+`" is not allowed`)
			require.Contains(t, w.Body.String(), "add the name to -hosts")
			require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
		}
	}
	require.Contains(t, ask(none, from(local, "evil.example")).Body.String(), "add the name to debughttp.Hosts")
}

func TestCheckHostOfAUnixSocket(t *testing.T) {
	h, err := CheckHost(http.NotFoundHandler(), Hosts{})
	require.NoError(t, err)
	r := from("@", "whatever")
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "s", Net: "unix"}))
	require.Equal(t, http.StatusNotFound, ask(h, r).Code)
}

// A name with a port, say, would never match.
func TestHostsThatCannotBe(t *testing.T) {
	for _, name := range []string{"", "gateway:9001", "http://gateway", "a b", "*", "gäteway", "[::1]"} {
		hosts := Hosts{Names: []string{"fine.example", name}, Setting: "-hosts"}
		_, err := CheckHost(http.NotFoundHandler(), hosts)
		require.ErrorIs(t, err, ErrArgument, name)
		require.ErrorContains(t, err, "-hosts has ")
		_, err = New(newKeeper(t, keepalive.Config{}), Config{Hosts: hosts})
		require.ErrorIs(t, err, ErrArgument, name)
	}
}

// The page has the names, too, for requests of this machine.
func TestHostsOfThePage(t *testing.T) {
	h := newHandler(t, newKeeper(t, keepalive.Config{}), Config{Hosts: Hosts{Names: []string{"gateway.example"}}})
	require.Equal(t, http.StatusOK, ask(h, from(local, "Gateway.Example:9001")).Code)
	require.Equal(t, http.StatusForbidden, ask(h, from("192.0.2.1:1", "gateway.example")).Code)
	require.Equal(t, http.StatusForbidden, ask(h, from(local, "evil.example")).Code)
	require.Equal(t, http.StatusForbidden, ask(h, from(local, "10.0.0.1")).Code)
}
