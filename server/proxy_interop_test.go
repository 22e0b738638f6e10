//go:build interop

package server

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/haproxytest"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// HAProxy names its clients, and its own checks have no name. MaxPerKey counts the clients.
func TestHAProxy(t *testing.T) {
	for _, header := range []string{"send-proxy", "send-proxy-v2"} {
		t.Run(header, func(t *testing.T) {
			r := start(t, Config{Proxies: aProxyHere, Line: whoAmI, Config: keepalive.Config{Timeout: eternal, Room: keepalive.Room{MaxPerKey: 1}}})
			front := haproxytest.Start(t, r.Addr().String(), "tcp", time.Minute, header+" check check-send-proxy inter 20ms")
			connect := func(from string) (c net.Conn, answer string) {
				dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
				c, err := dialer.Dial("tcp", front)
				require.NoError(t, err)
				t.Cleanup(func() { c.Close() })
				require.NoError(t, c.SetDeadline(time.Now().Add(eternal)))
				_, err = fmt.Fprintln(c, "who")
				require.NoError(t, err)
				return c, readLine(t, c)
			}
			for _, from := range []string{"127.0.0.7", "127.0.0.8"} {
				c, answer := connect(from)
				require.Equal(t, c.LocalAddr().String()+"\n", answer)
			}
			_, answer := connect("127.0.0.7")
			require.Equal(t, refusedFull, answer)
		})
	}
}

// curl sends a header of its own, and a person can type one.
func TestCurlAndNetcatWithAHeader(t *testing.T) {
	r := start(t, Config{Proxies: aProxyHere, Config: keepalive.Config{Timeout: eternal}})
	cmd := exec.Command("curl", "-sS", "--max-time", "30", "--haproxy-protocol", "telnet://"+r.Addr().String())
	cmd.Stdin = strings.NewReader("hello\nQUIT\n")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "hello\nBYE\n", string(out))
	require.Equal(t, "hello\nBYE\n", nc(t, r, strings.NewReader(alice+"hello\nQUIT\n")))
}
