package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The main job, small: a real server in its own process, and 200 connections.
func TestRunWithAServerOfItsOwn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	exit, stdout, stderr := load("-conns", "200", "-silent", "0.25", "-interval", "200ms",
		"-timeout", "1s", "-tick", "20ms", "-ramp", "1000", "-duration", "3s", "-json", file)
	require.Zero(t, exit, "%s%s", stdout, stderr)
	require.True(t, strings.HasSuffix(stdout, "verdict pass\n"), stdout)
	var r report
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &r))
	require.Equal(t, 200, r.Conns.Established)
	require.Equal(t, 50, r.Silent.Closed)
	require.Zero(t, r.Silent.Early)
	require.Equal(t, 150, r.Live.Count)
	require.Zero(t, r.Live.WronglyClosed)
	require.Greater(t, r.Live.Heartbeats, int64(150*10))
	require.Positive(t, r.Live.RTTMs.P50)
	require.Positive(t, r.Server.RSSBytes)
	require.Positive(t, r.Server.CPUSeconds)
	require.Empty(t, r.Reasons)
}

// behaviour is a server that does something wrong. It gets each line and what
// number it is on its connection, and says whether to go on.
type behaviour func(c net.Conn, line string, n int) bool

// misbehave serves until the test ends.
func misbehave(t *testing.T, b behaviour) (addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				scanner := bufio.NewScanner(c)
				n := 0
				for scanner.Scan() && b(c, scanner.Text(), n) {
					n++
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return ln.Addr().String()
}

func pong(c net.Conn, line string) {
	_, _ = io.WriteString(c, strings.Replace(line, "PING", "PONG", 1)+"\n")
}

// What must fail fails, with its reason.
func TestVerdicts(t *testing.T) {
	const timeout = time.Second
	closeIdle := func(c net.Conn, after time.Duration) { _ = c.SetReadDeadline(time.Now().Add(after)) }
	for name, test := range map[string]struct {
		server   behaviour
		silent   string
		duration time.Duration
		reason   string
	}{
		"good": {
			server: func(c net.Conn, line string, _ int) bool {
				pong(c, line)
				closeIdle(c, timeout+20*time.Millisecond)
				return true
			},
			silent: "0.5",
		},
		"closes silent ones early": {
			server: func(c net.Conn, line string, _ int) bool {
				pong(c, line)
				closeIdle(c, timeout-50*time.Millisecond)
				return true
			},
			silent: "0.5",
			reason: "20 silent connections were closed before the timeout of 1s",
		},
		"never closes": {
			server: func(c net.Conn, line string, _ int) bool { pong(c, line); return true },
			silent: "0.5",
			reason: "20 of 20 silent connections were not closed within 2.2s after their timeout",
		},
		"closes live ones": {
			server: func(c net.Conn, line string, n int) bool { pong(c, line); return n < 3 },
			silent: "0",
			reason: "40 live connections were closed",
		},
		"refuses": {
			server: func(c net.Conn, _ string, _ int) bool {
				_, _ = io.WriteString(c, "ERR too many connections\n")
				return false
			},
			silent: "0",
			reason: `40 of 40 connections failed, the first with: the server said "ERR too many connections"`,
		},
		"closes before the first answer": {
			server: func(net.Conn, string, int) bool { return false },
			silent: "0",
			reason: "40 of 40 connections failed, the first with: closed before the first answer",
		},
		"closes silent ones late": {
			server: func(c net.Conn, line string, _ int) bool {
				pong(c, line)
				closeIdle(c, timeout+2500*time.Millisecond)
				return true
			},
			silent:   "0.5",
			duration: 4 * time.Second,
			reason:   "silent connections were closed more than 2.2s after their timeout",
		},
		"answers only at first": {
			server: func(c net.Conn, line string, n int) bool {
				if n < 3 {
					pong(c, line)
				}
				return true
			},
			silent:   "0",
			duration: 4 * time.Second,
			reason:   "heartbeats had no answer for more than 2.2s",
		},
		"answers what nobody has asked": {
			server: func(c net.Conn, line string, n int) bool {
				pong(c, line)
				if n == 3 {
					pong(c, "PING 1000000")
				}
				return true
			},
			silent: "0",
			reason: "40 answers that nobody expects",
		},
		"talks nonsense": {
			server: func(c net.Conn, line string, _ int) bool {
				pong(c, line)
				_, _ = io.WriteString(c, "what?\n")
				return true
			},
			silent: "0",
			reason: "answers that nobody expects",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.duration == 0 {
				test.duration = 1500 * time.Millisecond
			}
			exit, stdout, stderr := load("-addr", misbehave(t, test.server), "-conns", "40", "-silent", test.silent,
				"-interval", "100ms", "-timeout", timeout.String(), "-duration", test.duration.String())
			if test.reason == "" {
				require.Zero(t, exit, "%s%s", stdout, stderr)
				return
			}
			require.Equal(t, exitFailure, exit, "%s%s", stdout, stderr)
			require.Contains(t, stdout, test.reason)
			require.True(t, strings.HasSuffix(stdout, "verdict fail\n"), stdout)
		})
	}
}

func TestNobodyListens(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln.Close()
	exit, stdout, _ := load("-addr", ln.Addr().String(), "-conns", "10", "-timeout", "500ms", "-interval", "100ms", "-tick", "10ms", "-duration", "700ms")
	require.Equal(t, exitFailure, exit)
	require.Contains(t, stdout, "10 of 10 connections failed, the first with: connect: connection refused")
}

func TestTooManyConnectionsForThisProcess(t *testing.T) {
	exit, _, stderr := load("-conns", "100000000")
	require.Equal(t, exitFailure, exit)
	require.Contains(t, stderr, "loadtest: 100000000 connections don't fit into this process, which may have ")
	require.Contains(t, stderr, "see ulimit -n")
}

func TestServerThatDoesNotStart(t *testing.T) {
	exit, _, stderr := load("-conns", "1", "-server", "/no/such/file")
	require.Equal(t, exitFailure, exit)
	require.Contains(t, stderr, "loadtest: starting the server: fork/exec /no/such/file: no such file or directory")

	script := filepath.Join(t.TempDir(), "server")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho 'it hurts' >&2\nexit 3\n"), 0o755))
	exit, _, stderr = load("-conns", "1", "-server", script)
	require.Equal(t, exitFailure, exit)
	require.Equal(t, "loadtest: the server ended at once: it hurts\n", stderr)
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	addr := misbehave(t, func(c net.Conn, line string, n int) bool {
		pong(c, line)
		if n == 2 {
			cancel()
		}
		return true
	})
	var out, errs strings.Builder
	require.Equal(t, exitFailure, run(ctx, []string{"-addr", addr, "-conns", "5", "-interval", "100ms", "-timeout", "1s"}, &out, &errs))
	require.Equal(t, "loadtest: interrupted\n", errs.String())
}

func TestIPv6(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Logf("no IPv6 here: %v", err)
		return
	}
	ln.Close()
	exit, stdout, _ := load("-addr", ln.Addr().String(), "-conns", "1", "-timeout", "500ms", "-interval", "100ms", "-tick", "10ms", "-duration", "700ms")
	require.Equal(t, exitFailure, exit)
	require.Contains(t, stdout, "connection refused")
}

// Answers may come in any pieces.
func TestAnswersInPieces(t *testing.T) {
	addr := misbehave(t, func(c net.Conn, line string, _ int) bool {
		for _, b := range strings.Replace(line, "PING", "PONG", 1) + "\n" {
			fmt.Fprintf(c, "%c", b)
			time.Sleep(200 * time.Microsecond)
		}
		return true
	})
	exit, stdout, stderr := load("-addr", addr, "-conns", "5", "-silent", "0", "-interval", "100ms", "-timeout", "500ms", "-duration", "700ms")
	require.Zero(t, exit, "%s%s", stdout, stderr)
}

// A heartbeat that this program got around to sending late has waited since it
// was due.
func TestRoundTripsCountFromWhenAHeartbeatWasDue(t *testing.T) {
	d := &driver{
		schedule: newSchedule(1, time.Second, rand.New(rand.NewPCG(1, 2))),
		result:   result{rtt: newHistogram()},
	}
	due := d.schedule.due(0, 7)
	c := &conn{state: live, sent: due + 400*time.Millisecond, unanswered: 7, next: 9}
	d.answers(0, c, []byte("PONG 7\n"), due+500*time.Millisecond)
	require.InDelta(t, 500, latencyOf(d.result.rtt).Max, 1)
	d.giveUpWaiting(0, c, due+4*time.Second)
	require.InDelta(t, 3000, latencyOf(d.result.rtt).Max, 5, "the second was due a second later")
	require.EqualValues(t, 1, d.result.unanswered)
}
