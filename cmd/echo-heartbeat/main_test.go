package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const eternal = 20 * time.Second // how long a test waits for what must come

func TestBadFlagsExitWithOneClearLine(t *testing.T) {
	for args, want := range map[string]string{
		"-nonsense":               "echo-heartbeat: flag provided but not defined: -nonsense",
		"-timeout x":              `echo-heartbeat: invalid value "x" for flag -timeout: parse error`,
		"-timeout 0s":             "echo-heartbeat: invalid value 0s for flag -timeout: must be at least 1ms",
		"-timeout -5s":            "echo-heartbeat: server: invalid argument: keepalive: invalid argument: Timeout -5s, must be at least 1ms",
		"-timeout 1s -tick 1m":    "echo-heartbeat: server: invalid argument: keepalive: invalid argument: Tick 1m0s is longer than Timeout 1s",
		"-max-conns -1":           "echo-heartbeat: server: invalid argument: MaxConns -1, must not be negative",
		"-addr nowhere":           `echo-heartbeat: server: invalid argument: Addr "nowhere": address nowhere: missing port in address`,
		"-addr localhost:99999":   `echo-heartbeat: server: invalid argument: Addr "localhost:99999": address 99999: invalid port`,
		"-addr=":                  `echo-heartbeat: invalid value "" for flag -addr: must be host:port`,
		"-log-format xml":         `echo-heartbeat: invalid value "xml" for flag -log-format: must be text or json`,
		"now":                     `echo-heartbeat: unexpected argument "now": there are only flags`,
		"-max-conns 999999999999": "echo-heartbeat: server: invalid argument: MaxConns 999999999999: the process may have",
	} {
		t.Run(args, func(t *testing.T) {
			var out strings.Builder
			require.Equal(t, exitUsage, run(context.Background(), strings.Fields(args), &out))
			require.True(t, strings.HasPrefix(out.String(), want), out.String())
			require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
		})
	}
}

func TestHelpIsNoError(t *testing.T) {
	var out strings.Builder
	require.Zero(t, run(context.Background(), []string{"-h"}, &out))
	for _, flag := range []string{"-addr", "-timeout", "-tick", "-max-conns", "-log-format"} {
		require.Contains(t, out.String(), flag)
	}
}

func TestTakenAddressExitsWithFailure(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	var out strings.Builder
	require.Equal(t, exitFailure, run(context.Background(), []string{"-addr", ln.Addr().String()}, &out))
	require.Contains(t, out.String(), "address already in use")
}

// The program as its users run it: built, with a free port, and ended by signals.
func TestProgram(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "echo-heartbeat")
	build, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", build)
	for _, c := range []struct {
		format string
		signal os.Signal
		addr   *regexp.Regexp
	}{
		{"text", os.Interrupt, regexp.MustCompile(`msg="server: listening" addr=(\S+)`)},
		{"json", syscall.SIGTERM, regexp.MustCompile(`"msg":"server: listening","addr":"([^"]+)"`)},
	} {
		t.Run(c.format, func(t *testing.T) {
			cmd := exec.Command(binary, "-addr", "127.0.0.1:0", "-timeout", "700ms", "-tick", "10ms", "-log-format", c.format)
			stderr, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			defer func() { _ = cmd.Process.Kill() }()
			log := bufio.NewReader(stderr)
			var addr string
			for addr == "" {
				line, err := log.ReadString('\n')
				require.NoError(t, err)
				if c.format == "json" {
					require.True(t, json.Valid([]byte(line)), line)
				}
				if m := c.addr.FindStringSubmatch(line); m != nil {
					addr = m[1]
				}
			}
			silent, err := net.Dial("tcp", addr)
			require.NoError(t, err)
			defer silent.Close()
			require.NoError(t, silent.SetDeadline(time.Now().Add(eternal)))
			got, err := io.ReadAll(silent)
			require.NoError(t, err)
			require.Equal(t, "BYE idle timeout 700ms\n", string(got))

			open, err := net.Dial("tcp", addr)
			require.NoError(t, err)
			defer open.Close()
			require.NoError(t, open.SetDeadline(time.Now().Add(eternal)))
			fmt.Fprintln(open, "PING")
			r := bufio.NewReader(open)
			line, err := r.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "PONG\n", line)
			require.NoError(t, cmd.Process.Signal(c.signal))
			got, err = io.ReadAll(r)
			require.NoError(t, err)
			require.Equal(t, "BYE server shutting down\n", string(got))
			_, _ = io.Copy(io.Discard, log)
			require.NoError(t, cmd.Wait(), "exit code 0")
		})
	}
}
