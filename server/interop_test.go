//go:build interop

package server

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// nc starts nc against the server, with what a person types.
func nc(t *testing.T, r *running, stdin io.Reader) string {
	host, port, _ := strings.Cut(r.Addr().String(), ":")
	cmd := exec.Command("nc", "-w", "20", host, port)
	cmd.Stdin = stdin
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestNetcat(t *testing.T) {
	r := start(t, Config{Config: keepalive.Config{Timeout: timeout, Room: keepalive.Room{MaxConns: 2}}})
	require.Equal(t, "hello\nPONG\nPONG 7\nBYE\n", nc(t, r, strings.NewReader("hello\nPING\nPING 7\nQUIT\n")))
	require.Equal(t, "hello\r\nBYE\r\n", nc(t, r, strings.NewReader("hello\r\nQUIT\r\n")))
	require.Equal(t, "ERR line too long\n", nc(t, r, strings.NewReader(strings.Repeat("x", 200_000)+"\n")))

	// Somebody types a line, in two pieces, and leaves nc alone.
	host, port, _ := strings.Cut(r.Addr().String(), ":")
	cmd := exec.Command("nc", host, port)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var last time.Time
	for _, typed := range []string{"ho", "la\n"} {
		time.Sleep(20 * time.Millisecond)
		last = time.Now()
		_, err = io.WriteString(stdin, typed)
		require.NoError(t, err)
	}
	seen := bufio.NewReader(stdout)
	for _, want := range []string{"hola\n", byeIdle} {
		line, err := seen.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, line)
	}
	require.GreaterOrEqual(t, time.Since(last), timeout)
	stdin.Close() // nc itself stays until then
	require.NoError(t, cmd.Wait())

	cfg := r.Config()
	cfg.Timeout = eternal // it may take a while to start nc
	require.NoError(t, r.Update(cfg))
	a, b := r.dial(t), r.dial(t)
	require.Equal(t, "PONG\n", ask(t, a, "PING\n"))
	require.Equal(t, "PONG\n", ask(t, b, "PING\n"))
	require.Equal(t, "ERR too many connections\n", nc(t, r, strings.NewReader("")))
}
