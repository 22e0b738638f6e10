package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// askAs asks for a page by a name, over HTTP/1.0: there the name may be empty.
func (p *process) askAs(t *testing.T, path, host string) (status int, body string) {
	t.Helper()
	c := dial(t, p.addr(t, "admin"))
	_, err := io.WriteString(c, "GET "+path+" HTTP/1.0\r\nHost: "+host+"\r\n\r\n")
	require.NoError(t, err)
	answer := c.rest(t)
	require.Regexp(t, `^HTTP/1.0 \d\d\d `, answer)
	_, body, _ = strings.Cut(answer, "\r\n\r\n")
	switch answer[9:12] {
	case "200":
		return http.StatusOK, body
	case "403":
		return http.StatusForbidden, body
	}
	return 0, body
}

// No page of a stranger reads anything, by whatever name the stranger gives this machine.
func TestHostsOfTheAdminPages(t *testing.T) {
	p := start(t, process{args: []string{"-admin", "127.0.0.1:0", "-admin-hosts", "gateway.example, Other.Example"}})
	p.ready(t)
	_, port, err := net.SplitHostPort(p.addr(t, "admin"))
	require.NoError(t, err)
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/nothing", "/debug/wheel"} {
		for _, host := range []string{"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "xgateway.example", "a.gateway.example"} {
			for _, suffix := range []string{"", ":80", ":" + port} {
				status, body := p.askAs(t, path, host+suffix)
				require.Equal(t, http.StatusForbidden, status, host)
				require.Contains(t, body, `the host "`+host+suffix+`" is not `)
				require.Contains(t, body, "add the name to -admin-hosts")
			}
		}
	}
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics"} {
		for _, host := range []string{"127.0.0.1", "10.1.2.3", "[::1]", "[2001:db8::1]", "localhost", "LOCALHOST", "gateway.localhost", "gateway.example", "Gateway.Example.", "other.example"} {
			for _, suffix := range []string{"", ":80", ":" + port} {
				status, body := p.askAs(t, path, host+suffix)
				require.Equal(t, http.StatusOK, status, "%s of %s: %s", path, host, body)
			}
		}
		status, _ := p.askAs(t, path, "")
		require.Equal(t, http.StatusOK, status, "a check of HTTP/1.0 names no host")
	}
	for host, want := range map[string]int{"127.0.0.1": http.StatusOK, "localhost:80": http.StatusOK, "[::1]": http.StatusOK, "gateway.example:80": http.StatusOK, "10.1.2.3": http.StatusForbidden, "": http.StatusForbidden} {
		status, _ := p.askAs(t, "/debug/wheel", host)
		require.Equal(t, want, status, host)
	}
}

func TestBadAdminHosts(t *testing.T) {
	for _, value := range []string{"gateway.example:9001", "http://gateway.example", "*", "a,,b", ",", "gäteway"} {
		var out strings.Builder
		require.Equal(t, exitUsage, run(t.Context(), []string{"-admin-hosts", value, "-check"}, &out), value)
		require.Contains(t, out.String(), "for flag -admin-hosts: must be names such as gateway.example")
	}
	var out strings.Builder
	require.Zero(t, run(t.Context(), []string{"-admin-hosts", "", "-check"}, &out), out.String())
}
