//go:build interop

package main

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/internal/haproxytest"
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
			front := haproxytest.Start(t, s.Addr, "tcp", time.Minute, header)
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
