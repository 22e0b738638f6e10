//go:build interop

package main

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README's session, as curl understands it.
func TestCurlSession(t *testing.T) {
	called := make(chan string, 10)
	target := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { called <- r.URL.Path }))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	target.Listener.Close()
	target.Listener = ln
	target.Start()
	defer target.Close()
	p := start(t, process{args: []string{"-memory", "-callback-allow", "127.0.0.0/8"}})

	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "```sh\n")
	lines, _, _ := strings.Cut(rest, "```")
	lines = strings.NewReplacer("127.0.0.1:8077", p.addr(t), "127.0.0.1:9000", ln.Addr().String()).Replace(lines)
	var answers []string
	for line := range strings.Lines(lines) {
		out, err := exec.Command("sh", "-c", strings.TrimSpace(line)+" --fail-with-body").CombinedOutput()
		require.NoError(t, err, "%s%s", line, out)
		answers = append(answers, string(out))
	}
	require.Len(t, answers, 7)
	require.Contains(t, answers[0], `"name":"orders"`)
	require.Contains(t, answers[0], `"retries":3,"backoff":"2s","backoff_max":"1m0s"`)
	require.Contains(t, answers[1], `"was":"none","changed":true`)
	require.Contains(t, answers[2], `"payload":{"order":4711}`)
	require.Contains(t, answers[3], `"was":"pending","changed":true`)
	require.Equal(t, "{\"was\":\"pending\",\"changed\":true}\n", answers[4])
	require.Contains(t, answers[5], `"due":"2099-01-02T03:04:05.000Z"`)
	require.Contains(t, answers[6], `"id":"2"`)
	require.Equal(t, "/unpaid", <-called)
}

// systemd's own check of the unit. It is as shipped, but for the path of the program.
func TestSystemdVerifiesTheUnit(t *testing.T) {
	text, err := os.ReadFile(units + "timeoutd.service")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "timeoutd.service")
	require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(text, []byte("/usr/local/bin/timeoutd"), []byte("/bin/true")), 0o600))
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "timeoutd") // others may have their faults
	out, err = exec.Command("systemd-analyze", "security", "--offline=yes", "--threshold=20", path).CombinedOutput()
	require.NoError(t, err, "exposed more than 2.0 of 10:\n%s", out)
}
