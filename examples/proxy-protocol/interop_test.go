//go:build interop

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

// curl sends the header itself.
func TestCurl(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	out := exampletest.Output(t, exampletest.Program(t, "curl", "curl", "-sS", "--max-time", "30", "--haproxy-protocol", "http://"+s.Addr))
	require.Contains(t, out, "you are 127.0.0.1:")
}

// HAProxy sends the header for its clients. MaxPerKey counts by client.
func TestHAProxy(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	for _, header := range []string{"send-proxy", "send-proxy-v2"} {
		t.Run(header, func(t *testing.T) {
			front := haproxy(t, s.Addr, header)
			ask := func(from string) (string, error) {
				out, err := exampletest.Program(t, "curl", "curl", "-sS", "--max-time", "30", "--interface", from, "http://"+front).CombinedOutput()
				return string(out), err
			}
			for _, from := range []string{"127.0.0.1", "127.0.0.7"} { // loopback has many
				out, err := ask(from)
				require.NoError(t, err, "%s", out)
				require.Contains(t, out, "you are "+from+":")
			}

			// One client keeps all its connections, until they are idle for too long.
			dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 8)}}
			require.Eventually(t, func() bool {
				for range maxPerClient {
					c, err := dialer.Dial("tcp", front)
					if err != nil {
						return false
					}
					t.Cleanup(func() { c.Close() })
					_, _ = fmt.Fprint(c, "GET / HTTP/1.1\r\n") // there may be no room
				}
				_, err := ask("127.0.0.8")
				return err != nil
			}, exampletest.Late, exampletest.Beat, "there is no room")
			out, err := ask("127.0.0.9")
			require.NoError(t, err, "%s", out)
		})
	}
}

// haproxy starts HAProxy before a server, and returns its address.
func haproxy(t *testing.T, server, header string) (front string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	front = ln.Addr().String()
	ln.Close()
	config := filepath.Join(t.TempDir(), "haproxy.cfg")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
defaults
	mode tcp
	timeout connect 5s
	timeout client 1m
	timeout server 1m
listen web
	bind %s
	server example %s %s
`, front, server, header), 0o600))
	exampletest.Run(t, exampletest.Program(t, "haproxy", "haproxy", "-db", "-f", config))
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", front)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, exampletest.Late, exampletest.Beat, "HAProxy does not listen")
	return front
}
