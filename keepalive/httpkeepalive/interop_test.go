//go:build interop

package httpkeepalive_test

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// curl outlives the timeout: with a handler silent for 10 s, with events, and with a download
// to a slow reader. To keep to its rate, curl 7.88 takes 8 MB at once and then nothing for as
// long as they should have taken: here a quarter of a timeout. If a busy machine lets curl wait for the rest, or the
// handshake for a whole one, curl ends with 18, and the Keeper is right.
func TestCurl(t *testing.T) {
	eachActivityFor(t, 2*timeout, func(t *testing.T, s *server) {
		for name, args := range map[string]string{
			"plain":   "http://" + s.plain,
			"TLS":     "--http1.1 https://" + s.tls,
			"HTTP2":   "--http2 https://" + s.tls,
			"HTTP1.0": "--http1.0 http://" + s.plain,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				t.Run("handler", func(t *testing.T) {
					t.Parallel()
					require.Equal(t, "done", curl(t, nil, args+"/slow?for=10s"))
				})
				t.Run("events", func(t *testing.T) {
					t.Parallel()
					events := curl(t, nil, "-N "+args+"/events?for=6s")
					require.Greater(t, strings.Count(events, "data: x"), 3)
					require.Contains(t, events, "data: end")
				})
				t.Run("download", func(t *testing.T) {
					t.Parallel()
					require.Equal(t, fmt.Sprint(size), curl(t, nil, "-o /dev/null -w %{size_download} --limit-rate 8M "+args+"/big"))
				})
			})
		}
	})
}

// curl sends slowly.
func TestCurlUploads(t *testing.T) {
	body := strings.Repeat("x", upload)
	eachActivity(t, func(t *testing.T, s *server) {
		for _, args := range []string{"http://" + s.plain, "--http1.1 https://" + s.tls, "--http2 https://" + s.tls} {
			sent := curl(t, strings.NewReader(body), "--limit-rate 2M --data-binary @/dev/stdin "+args+"/upload")
			require.Equal(t, fmt.Sprint(upload), sent)
		}
	})
}

// nc and openssl leave HTTP: their connections live as long as they beat.
func TestHijackedConnectionsOfNcAndOpenssl(t *testing.T) {
	eachActivity(t, func(t *testing.T, s *server) {
		_, port, err := net.SplitHostPort(s.plain)
		require.NoError(t, err)
		for _, args := range []string{"nc 127.0.0.1 " + port, "openssl s_client -quiet -alpn http/1.1 -connect " + s.tls} {
			cmd := exec.Command(strings.Fields(args)[0], strings.Fields(args)[1:]...)
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			fmt.Fprint(in, "GET /hijack HTTP/1.1\r\nHost: a\r\n\r\n")
			for range 20 { // four timeouts
				time.Sleep(timeout / 5)
				fmt.Fprint(in, "beat\n")
			}
			require.Equal(t, keepalive.ReasonIdle, s.closes(t), args)
			_ = in.Close() // nc waits for the end of its input
			said, err := io.ReadAll(out)
			require.NoError(t, err)
			_ = cmd.Wait() // openssl minds the missing close_notify
			require.Equal(t, 20, strings.Count(string(said), "beat\n"), "%s: %s", args, said)
		}
	})
}

// curl uses its connection again, until the server sheds it.
func TestCurlConnectsAgainAfterAShed(t *testing.T) {
	_, addr, shed := serveShed(t)
	var args string
	for _, path := range []string{"/", "/", "/shed", "/", "/"} {
		args += " --next -sS -w %{num_connects} http://" + addr + path
	}
	require.Equal(t, "10010", curl(t, nil, args[len(" --next"):]))
	require.NoError(t, <-shed)
}

const upload = 12 << 20

// curl runs curl with this input and these arguments.
func curl(t *testing.T, in io.Reader, args string) string {
	cmd := exec.Command("curl", append([]string{"-sSk", "--max-time", "60"}, strings.Fields(args)...)...)
	cmd.Stdin = in
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, "curl %s: %s: %d bytes", args, said.String(), len(out))
	return string(out)
}

// A refused curl reads the answer, also in the middle of its upload, and as wscat would in a handshake.
func TestCurlIsRefused(t *testing.T) {
	addr, _ := refusing(t)
	for name, args := range map[string]string{
		"get":     "http://" + addr,
		"HTTP1.0": "--http1.0 http://" + addr,
		"upload":  "--data-binary @/dev/stdin http://" + addr,
		"upgrade": "-H Upgrade:websocket -H Connection:Upgrade -H Sec-WebSocket-Version:13 -H Sec-WebSocket-Key:AAAAAAAAAAAAAAAAAAAAAA== http://" + addr,
	} {
		got := curl(t, strings.NewReader(strings.Repeat("x", 1<<20)), "-o /dev/null -w %{http_code}|%header{retry-after} "+args)
		require.Equal(t, "429|2", got, name)
	}
}
