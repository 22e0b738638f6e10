package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBadFlagsExitWithOneClearLine(t *testing.T) {
	for args, want := range map[string]string{
		"-nonsense":                       "echo-heartbeat: flag provided but not defined: -nonsense",
		"-timeout":                        "echo-heartbeat: flag needs an argument: -timeout",
		"-timeout x":                      `echo-heartbeat: invalid value "x" for flag -timeout: must be a duration such as 1m30s`,
		"-timeout 5":                      `echo-heartbeat: invalid value "5" for flag -timeout: must be a duration such as 1m30s`,
		"-timeout 0s":                     `echo-heartbeat: invalid value "0s" for flag -timeout: must be at least 1ms`,
		"-timeout -5s":                    `echo-heartbeat: invalid value "-5s" for flag -timeout: must be at least 1ms`,
		"-timeout 1s -tick 1m":            "echo-heartbeat: server: invalid argument: keepalive: invalid argument: Tick 1m0s is longer than Timeout 1s",
		"-max-age -5s":                    `echo-heartbeat: invalid value "-5s" for flag -max-age: must not be negative`,
		"-max-age-jitter 1":               "echo-heartbeat: server: invalid argument: keepalive: invalid argument: Age.Jitter 1, must be less than 1",
		"-max-age-jitter NaN":             `echo-heartbeat: invalid value "NaN" for flag -max-age-jitter: must be a share such as 0.1`,
		"-max-age-grace 5s":               "echo-heartbeat: server: invalid argument: keepalive: invalid argument: Age.Grace 5s without an Age.Max",
		"-max-conns -1":                   `echo-heartbeat: invalid value "-1" for flag -max-conns: must not be negative`,
		"-max-conns 1e3":                  `echo-heartbeat: invalid value "1e3" for flag -max-conns: must be a whole number`,
		"-max-conns 999999999999":         "echo-heartbeat: server: invalid argument: Room.MaxConns 999999999999: the process may have",
		"-max-conns 99999999999999999999": `echo-heartbeat: invalid value "99999999999999999999" for flag -max-conns: must be a number up to 9223372036854775807`,
		"-probe-count 101":                "echo-heartbeat: server: invalid argument: keepalive: invalid argument: Probe.Count 101, must be at most 100",
		"-full sometimes":                 `echo-heartbeat: invalid value "sometimes" for flag -full: must be reject, wait or evict`,
		"-full wait":                      "echo-heartbeat: server: invalid argument: Room.Full wait, must be reject or evict: gnet accepts all connections",
		"-evict-min-idle 1s":              "echo-heartbeat: server: invalid argument: keepalive: invalid argument: Room.MinIdle 1s is for Room.Full evict, not for reject",
		"-drain 1m -shutdown-timeout 5s":  "echo-heartbeat: server: invalid argument: ShutdownTimeout 5s, must not be less than DrainDelay 0s and Drain 1m0s together",
		"-addr nowhere":                   `echo-heartbeat: invalid value "nowhere" for flag -addr: must be host:port: address nowhere: missing port in address`,
		"-addr localhost:99999":           `echo-heartbeat: invalid value "localhost:99999" for flag -addr: must be host:port: address 99999: invalid port`,
		"-addr=":                          `echo-heartbeat: invalid value "" for flag -addr: must be host:port: missing port in address`,
		"-admin nowhere":                  `echo-heartbeat: invalid value "nowhere" for flag -admin: must be host:port: address nowhere: missing port in address`,
		"-log-format xml":                 `echo-heartbeat: invalid value "xml" for flag -log-format: must be text or json`,
		"-log-level loud":                 `echo-heartbeat: invalid value "loud" for flag -log-level: must be debug, info, warn or error`,
		"-dry-run=perhaps":                `echo-heartbeat: invalid boolean value "perhaps" for -dry-run: must be true or false`,
		"-config /no/such/file":           "echo-heartbeat: config: stat /no/such/file: no such file or directory",
		"-config /dev/zero":               "echo-heartbeat: config: /dev/zero is no regular file",
		"-config .":                       "echo-heartbeat: config: . is no regular file",
		"now":                             `echo-heartbeat: unexpected argument "now": there are only flags`,
	} {
		t.Run(args, func(t *testing.T) {
			var out strings.Builder
			require.Equal(t, exitUsage, run(context.Background(), strings.Fields(args), &out))
			require.True(t, strings.HasPrefix(out.String(), want), out.String())
			require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())

			out.Reset()
			require.Equal(t, exitUsage, run(context.Background(), append(strings.Fields(args), "-check"), &out), "also where it is only checked")
			require.Contains(t, out.String(), "echo-heartbeat: ")
		})
	}
}

func TestHelpIsNoError(t *testing.T) {
	var out strings.Builder
	require.Zero(t, run(context.Background(), []string{"-h"}, &out))
	names := 0
	for s := range newOptions().All {
		require.Contains(t, out.String(), "\n  "+strings.TrimSpace("-"+s.Name+" "+s.Arg)+"\n        "+s.Help)
		names++
	}
	require.Greater(t, names, 30)
	require.Contains(t, out.String(), "without a whole line (default 30s)")
}

func TestTakenAddressExitsWithFailure(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	var out strings.Builder
	require.Equal(t, exitFailure, run(context.Background(), []string{"-addr", ln.Addr().String()}, &out))
	require.Contains(t, out.String(), "address already in use")
}

// The program as its users run it: with a free port, and ended by signals.
func TestProgram(t *testing.T) {
	for _, c := range []struct {
		format string
		signal os.Signal
	}{
		{"text", os.Interrupt},
		{"json", syscall.SIGTERM},
	} {
		t.Run(c.format, func(t *testing.T) {
			p := start(t, process{args: []string{"-timeout", "3s", "-tick", "10ms", "-log-format", c.format}})
			require.Equal(t, "BYE idle timeout 3s\n", p.dial(t).rest(t))

			open := p.dial(t)
			require.Equal(t, "PONG\n", open.ask(t, "PING\n"))
			require.NoError(t, p.cmd.Process.Signal(c.signal))
			require.Equal(t, "BYE server shutting down\n", open.rest(t))
			require.NoError(t, p.wait(), "exit code 0")
			for line := range strings.Lines(p.log.String()) {
				require.Equal(t, c.format == "json", json.Valid([]byte(line)), line)
			}
		})
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	p := start(t, process{args: []string{"-drain-delay", "1h"}})
	c := p.dial(t)
	require.Equal(t, "PONG\n", c.ask(t, "PING\n"))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.logged(t, "shutting down soon")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	require.ErrorAs(t, p.wait(), &exit)
}

func TestAdviceIsLoggedAtTheEnd(t *testing.T) {
	t.Parallel() // it mostly waits
	p := start(t, process{args: []string{"-advise", "-dry-run", "-timeout", "4s", "-tick", "10ms"}})
	c := p.dial(t)
	require.Equal(t, "PONG\n", c.ask(t, "PING\n"))
	time.Sleep(5 * time.Second) // of silence: in a dry run that is fine
	require.Equal(t, "PONG\n", c.ask(t, "PING\n"))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.wait())
	p.logged(t, `msg=advice timeout=4s near_misses=\d+ would_close_at_1s=1 would_close_at_2s=1 would_close_at_3s=1 would_close_at_4s=1`)
}

// Above Debug no connection has a line.
func TestLogLevel(t *testing.T) {
	for _, level := range []string{"debug", "info"} {
		p := start(t, process{args: []string{"-log-level", level}})
		require.Equal(t, "BYE\n", p.dial(t).ask(t, "QUIT\n"))
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, p.wait())
		require.Equal(t, level == "debug", strings.Contains(p.log.String(), "closed a connection"), p.log.String())
	}
	var out strings.Builder
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	require.Equal(t, exitFailure, run(context.Background(), []string{"-addr", ln.Addr().String(), "-log-level", "error"}, &out))
	require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
}

func TestCheckOfGoodFlags(t *testing.T) {
	for _, flag := range []string{"-check", "-t"} {
		var out strings.Builder
		require.Zero(t, run(context.Background(), []string{flag, "-max-age", "1h"}, &out))
		require.Equal(t, "echo-heartbeat: this makes sense\n", out.String())
	}
}
