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
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
)

// The main job, small: a real server in its own process, and 200 connections.
func TestRunWithAServerOfItsOwn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	exit, stdout, stderr := loadWell(t, "-conns", "200", "-silent", "0.25", "-interval", "200ms",
		"-timeout", "1s", "-tick", "20ms", "-ramp", "1000", "-duration", "3s", "-json", file)
	require.Zero(t, exit, "%s%s", stdout, stderr)
	require.True(t, strings.HasSuffix(stdout, "verdict pass\n"), stdout)
	r := readReport(t, file)
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

func readReport(t *testing.T, file string) (r report) {
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &r))
	return r
}

// behaviour is a server with a fault. It gets each line and the line's number on its connection, and
// says whether to go on.
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
				closeIdle(c, timeout-400*time.Millisecond)
				return true
			},
			silent: "0.5",
			reason: "20 silent connections were closed before the timeout of 1s",
		},
		"never closes": {
			server: func(c net.Conn, line string, _ int) bool { pong(c, line); return true },
			silent: "0.5",
			reason: "20 of 20 silent connections were not closed within 2s after their timeout",
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
			reason:   "silent connections were closed more than 2s after their timeout",
		},
		"answers only at first": {
			server: func(c net.Conn, line string, n int) bool {
				if n < 3 {
					pong(c, line)
				}
				return true
			},
			silent: "0",
			reason: "heartbeats had no answer for more than 2s",
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
			args := []string{
				"-addr", misbehave(t, test.server), "-conns", "40", "-silent", test.silent,
				"-interval", "100ms", "-timeout", timeout.String(), "-duration", test.duration.String(),
			}
			if test.reason == "" {
				exit, stdout, stderr := loadWell(t, args...)
				require.Zero(t, exit, "%s%s", stdout, stderr)
				return
			}
			exit, stdout, stderr := loadBadly(t, []string{test.reason}, args...)
			require.Equal(t, exitFailure, exit, "%s%s", stdout, stderr)
			require.Contains(t, stdout, test.reason)
			require.True(t, strings.HasSuffix(stdout, "verdict fail\n"), stdout)
		})
	}
}

// nobody returns an address without a listener until the end of the test.
func nobody(t *testing.T) (addr string) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
}

func TestNobodyListens(t *testing.T) {
	exit, stdout, _ := load("-addr", nobody(t), "-conns", "10", "-timeout", "500ms", "-interval", "100ms", "-tick", "10ms", "-duration", "700ms")
	require.Equal(t, exitFailure, exit)
	require.Contains(t, stdout, "10 of 10 connections failed, the first with: connect: connection refused")
}

func TestMachineThatIsTooSmall(t *testing.T) {
	exit, _, stderr := load("-conns", "10000000")
	require.Equal(t, exitFailure, exit)
	require.Regexp(t, `(?m)^loadtest: [0-9.]+ GB of memory are available, and this run needs 1[0-9]{2}\.[0-9] GB$`, stderr)
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
	exit, stdout, stderr := loadWell(t, "-addr", addr, "-conns", "5", "-silent", "0", "-interval", "100ms", "-timeout", "500ms", "-duration", "700ms")
	require.Zero(t, exit, "%s%s", stdout, stderr)
}

// A heartbeat sent late by this program has waited since it was due.
func TestRoundTripsCountFromWhenAHeartbeatWasDue(t *testing.T) {
	w := new(shared).newWorker(role{conns: 1, interval: time.Second}, rand.New(rand.NewPCG(1, 2)))
	due := w.beats.due(0, 7)
	w.line = &timeline{steady: 1, closing: time.Hour}
	c := &conn{state: live, sent: due + 400*time.Millisecond, unanswered: 7, next: 9}
	w.answers(0, c, []byte("PONG 7\n"), due+500*time.Millisecond)
	require.InEpsilon(t, 500, w.result.rtt[steady].Summary().Max, 0.01)
	w.giveUpWaiting(0, c, due+4*time.Second)
	require.InEpsilon(t, 3000, w.result.rtt[steady].Summary().Max, 0.01, "the second was due a second later")
	require.EqualValues(t, 1, w.result.unanswered)
}

// Each thread has descriptors of its own, and each server its share of the
// connections.
func TestSeveralProcesses(t *testing.T) {
	limit, ok := rlimit.Files()
	require.True(t, ok)
	file := filepath.Join(t.TempDir(), "report.json")
	exit, stdout, stderr := loadWell(t, "-conns", "600", "-procs", "3", "-interval", "200ms", "-timeout", "1500ms",
		"-tick", "20ms", "-ramp", "2000", "-duration", "3s", "-probes", "10", "-json", file)
	require.Zero(t, exit, "%s%s", stdout, stderr)
	r := readReport(t, file)
	require.Equal(t, 610, r.Conns.Established)
	require.Equal(t, 60, r.Silent.Closed)
	require.Equal(t, 550, r.Live.Count)
	require.Equal(t, 3, r.Server.Processes)
	require.Equal(t, 3, r.Run.Workers)
	require.Equal(t, limit, r.Machine.Files)
	require.Positive(t, r.Server.BytesPerConn)
	require.Positive(t, r.Server.SteadyCores)
	require.Len(t, r.Phases, int(phases))
	for _, p := range r.Phases[steady:] {
		require.Positive(t, p.RTTMs.P50, p.Phase)
		require.Positive(t, p.ProbesMs.P50, p.Phase)
	}
}

// With descriptors of their own, all threads together have more than one process
// may have.
func TestThreadsWithDescriptorsOfTheirOwn(t *testing.T) {
	cfg, err := parse([]string{"-conns", "4", "-interval", "100ms", "-timeout", "500ms", "-duration", "700ms"}, io.Discard)
	require.NoError(t, err)
	addr := misbehave(t, func(c net.Conn, line string, _ int) bool { pong(c, line); return true })
	c, err := newCrew(cfg, plan{workers: 2, ownFiles: true})
	require.NoError(t, err)
	before := rlimit.Open()
	res, err := c.drive(t.Context(), []string{addr}, newMeter())
	require.NoError(t, err)
	require.Equal(t, 4, res.established)
	require.LessOrEqual(t, rlimit.Open(), before+4, "the descriptors of the servers' ends, but not of the threads'")
	c.dismiss()
	require.Eventually(t, func() bool { return rlimit.Open() <= before }, time.Minute, 10*time.Millisecond,
		"what a thread had open is closed, so the servers' ends are closed too")
}

func TestStorm(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	exit, stdout, stderr := loadWell(t, "-storm", "-conns", "500", "-probes", "20", "-interval", "500ms", "-timeout", "2s",
		"-tick", "20ms", "-ramp", "5000", "-duration", "4s", "-json", file, "-html", file+".html")
	require.Zero(t, exit, "%s%s", stdout, stderr)
	r := readReport(t, file)
	require.Equal(t, 500, r.Silent.Closed)
	require.Equal(t, 20, r.Live.Count)
	require.Less(t, r.Silent.FirstToLastS, stormTime.Seconds()+2.2, "all deadlines are within a second")
	require.Greater(t, r.Silent.FirstToLastS, 0.5)
	require.Positive(t, r.Phases[closing].ProbesMs.P50)
	root := readPage(t, file+".html")
	require.Equal(t, "all fall silent", root.chart("Connections").all("span", "mark-name")[0].text)
	require.NotNil(t, root.chart("Round trip of the probes"))
}

func TestHeartbeatsWithoutAnAnswer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	exit, stdout, stderr := loadWell(t, "-reply=false", "-quantum", "20ms", "-conns", "200", "-probes", "10", "-interval", "300ms", "-timeout", "1500ms",
		"-tick", "20ms", "-ramp", "2000", "-duration", "3s", "-json", file)
	require.Zero(t, exit, "%s%s", stdout, stderr)
	r := readReport(t, file)
	require.Equal(t, 20, r.Silent.Closed)
	require.Zero(t, r.Live.RTTMs, "nobody answers")
	require.Positive(t, r.Phases[steady].ProbesMs.P50)
	require.LessOrEqual(t, r.Client.LagMs.P50, 20.2)
	require.Greater(t, r.Live.Heartbeats, int64(190*8))
}

func TestBaselines(t *testing.T) {
	for _, kind := range []string{"gnet", "net"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "report.json")
			exit, stdout, stderr := loadWell(t, "-baseline", kind, "-conns", "100", "-interval", "200ms", "-timeout", "1s",
				"-ramp", "1000", "-duration", "3s", "-json", file)
			require.Zero(t, exit, "%s%s", stdout, stderr)
			r := readReport(t, file)
			require.Equal(t, kind, r.Run.Server)
			require.Greater(t, r.Live.Heartbeats, int64(90*10))
			want := 0 // nobody
			if kind == "net" {
				want = 10
			}
			require.Equal(t, want, r.Silent.Closed)
		})
	}
}

// The probes speak until the last silent connection of all workers is closed, or is
// not closed in time, and until their own heartbeats are answered.
func TestProbesSeeAWholeStorm(t *testing.T) {
	cfg, err := parse([]string{"-storm"}, io.Discard)
	require.NoError(t, err)
	rnd := rand.New(rand.NewPCG(1, 2))
	s := &shared{cfg: cfg}
	bulk := s.newWorker(role{conns: 2, silent: 1, interval: cfg.interval}, rnd)
	probes := s.newWorker(role{conns: 1, interval: probeInterval, reply: true, probes: true}, rnd)
	line := cfg.timeline(1)
	bulk.line, probes.line = line, line

	require.False(t, probes.over(line.settling))
	bulk.isClosed()
	require.False(t, probes.over(line.settling+1))
	bulk.isClosed()
	probes.pending = 1
	require.False(t, probes.over(line.settling+2), "an answer is outstanding")
	require.True(t, bulk.over(line.settling+2))
	require.True(t, probes.over(line.settling+3+cfg.margin()), "for too long")

	again := s.newWorker(role{conns: 1, silent: 1, interval: cfg.interval}, rnd)
	again.line = line
	require.False(t, again.over(line.end-1))
	require.True(t, again.over(line.end), "not closed in time")
}

// Until the end of the steady phase nobody's last heartbeat is a timeout ago.
func TestNobodyIsClosedInTheCalm(t *testing.T) {
	for _, args := range []string{"-interval 10s -timeout 30s", "-interval 20s -timeout 60s", "-interval 10s -timeout 30s -storm"} {
		cfg, err := parse(append(strings.Fields(args), "-conns", "5000"), io.Discard)
		require.NoError(t, err)
		s := &shared{cfg: cfg}
		w := s.newWorker(role{conns: cfg.conns, silent: cfg.silent, interval: cfg.interval}, rand.New(rand.NewPCG(1, 2)))
		line := cfg.timeline(100 * time.Second)
		for i := range w.conns {
			from := w.conns[i].goSilent + line.steady
			if cfg.storm {
				from = line.storm
			}
			last := time.Duration(0)
			for cycle := uint64(0); w.beats.due(int32(i), cycle) < from; cycle++ {
				last = w.beats.due(int32(i), cycle)
			}
			require.GreaterOrEqual(t, last+cfg.timeout, line.steadyEnd, args)
		}
	}
}

// A run without a result leaves no report, neither an empty one nor an earlier one.
func TestNoReportOfARunThatFailed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"verdict": "pass"}`), 0o600))
	exit, _, _ := load("-conns", "10", "-server", "/no/such/file", "-json", file)
	require.Equal(t, exitFailure, exit)
	require.NoFileExists(t, file)
}
