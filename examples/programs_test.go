// Package examples_test runs each example as a program: its flags, its signal, and its exit code.
package examples_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/internal/logtest"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

// build builds all examples of one folder. The fleet and the deploy have tests of their own.
func build(t *testing.T) (dir string, names []string) {
	dir = t.TempDir()
	found, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	args := []string{"build", "-o", dir}
	for _, file := range found {
		if name := filepath.Dir(file); name != "fleet" && name != "deploy" {
			names = append(names, name)
			args = append(args, "./"+name)
		}
	}
	require.Greater(t, len(names), 10)
	out, err := exec.Command("go", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir, names
}

// Without httpkeepalive, a slow handler and an event stream are as good as a silent peer.
func TestWebServersTellTheKeeperOfTheirRequests(t *testing.T) {
	found, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	servers := 0
	for _, file := range found {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(source), "&http.Server{") && strings.Contains(string(source), "k.Listener(") {
			servers++
			require.Contains(t, string(source), "httpkeepalive.Wrap(", file)
		}
	}
	require.Greater(t, servers, 2)
}

func TestPrograms(t *testing.T) {
	dir, names := build(t)
	certificate(t, dir)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for bad, want := range map[string]string{
				"-timeout 0":     "timeout",
				"-timeout -1s":   "timeout",
				"-timeout 10":    "timeout",
				"-nonsense":      "nonsense",
				"127.0.0.1:8080": `"127.0.0.1:8080"`,
				"-addr nonsense": "nonsense",
			} {
				out, err := program(t, dir, name, strings.Fields(bad)...).CombinedOutput()
				var exit *exec.ExitError
				require.ErrorAs(t, err, &exit, "%s", bad)
				require.Contains(t, string(out), want, "%s", bad)
				require.NotContains(t, string(out), "goroutine ", "%s", bad)
			}
			requireStops(t, program(t, dir, name, "-addr", "127.0.0.1:0"))
		})
	}
}

// requireStops requires a program to listen, and to end with SIGINT and exit code 0.
func requireStops(t *testing.T, cmd *exec.Cmd) {
	var log logtest.Log
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	addr := log.Await(t, `listening addr=(\S+)`)
	_, _, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	begun := time.Now()
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait(), "its log:\n%s", &log)
	t.Logf("ended after %v", time.Since(begun))
}

// program runs in the folder with the certificate.
func program(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	cmd := exampletest.Program(t, name, filepath.Join(dir, name), args...)
	cmd.Dir = dir
	return cmd
}

// certificate writes cert.pem and key.pem in the way of the README.
func certificate(t *testing.T, dir string) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	cmd := exec.Command("go", "run", strings.TrimSpace(string(root))+"/src/crypto/tls/generate_cert.go", "-host", "localhost,127.0.0.1")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
