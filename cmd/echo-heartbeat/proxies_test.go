package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClientsBehindABalancer(t *testing.T) {
	p := start(t, process{args: []string{"-proxies", "127.0.0.1", "-max-per-key", "1", "-log-level", "debug"}})
	c := p.dial(t)
	require.Equal(t, "PONG\n", c.ask(t, "PROXY TCP4 192.0.2.1 192.0.2.9 1111 80\r\nPING\n"))
	require.Equal(t, "PONG\n", p.dial(t).ask(t, "PROXY TCP4 192.0.2.2 192.0.2.9 2222 80\r\nPING\n"))
	require.Equal(t, "ERR too many connections\n", p.dial(t).ask(t, "PROXY TCP4 192.0.2.1 192.0.2.9 3333 80\r\nPING\n"))
	require.Equal(t, "BYE\n", c.ask(t, "QUIT\n"))
	p.logged(t, "remote=192.0.2.1:1111")
}

func TestBadProxies(t *testing.T) {
	for _, value := range []string{"10.0.0.0/33", "balancer.example", "10.0.0.1:80", "10.0.0.0/8,", ",", "::ffff:10.0.0.0/104"} {
		var out strings.Builder
		require.Equal(t, exitUsage, run(t.Context(), []string{"-proxies", value, "-check"}, &out), value)
		require.Contains(t, out.String(), "for flag -proxies: must be networks such as 10.0.0.0/8, or addresses")
	}
	var out strings.Builder
	require.Equal(t, exitUsage, run(t.Context(), []string{"-proxies-optional", "-check"}, &out))
	require.Contains(t, out.String(), "Proxies.Optional without Proxies.Trusted")
	for _, value := range []string{"", "10.0.0.0/8, fd00::/8,192.0.2.7"} {
		require.Zero(t, run(t.Context(), []string{"-proxies", value, "-check"}, &out), out.String())
	}
}
