package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(fakeGateway); kind != "" {
		runFake(kind)
	}
	testmain.Run(m)
}

// load runs the program and returns its exit code and what it printed.
func load(args ...string) (exit int, stdout, stderr string) {
	var out, errs strings.Builder
	exit = run(context.Background(), args, &out, &errs)
	return exit, out.String(), errs.String()
}

// loadWell is load for a run with verdict pass. This program rightly finds fault with a busy machine.
// If that is all, loadWell tries again.
func loadWell(t *testing.T, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	return loadUnlessSpoilt(t, isSlow, args...)
}

// loadBadly is load for a run to fail for some reasons. A busy machine has other faults.
func loadBadly(t *testing.T, reasons []string, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	return loadUnlessSpoilt(t, func(stdout string) bool {
		return slices.ContainsFunc(reasons, func(reason string) bool { return !strings.Contains(stdout, reason) })
	}, args...)
}

// attempts is how often a run may be spoilt by a busy machine.
const attempts = 3

func loadUnlessSpoilt(t *testing.T, isSpoilt func(stdout string) bool, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		exit, stdout, stderr = load(args...)
		if attempt == attempts || !isSpoilt(stdout) {
			return exit, stdout, stderr
		}
		t.Logf("attempt %d:\n%s%s", attempt, stdout, stderr)
	}
}

// isSlow reports whether a run has failed only since something came too late.
func isSlow(stdout string) bool {
	reasons := 0
	for line := range strings.Lines(stdout) {
		reason, ok := strings.CutPrefix(line, "reason: ")
		if !ok {
			continue
		}
		reasons++
		if !slices.ContainsFunc([]string{
			"silent connections were not closed within", "silent connections were closed more than",
			"sent their heartbeats too late", "had no answer for more than", "calls to Redis have failed",
			"were told to be offline more than", "has held", "leases were lost by nodes", "leases were extended",
		}, func(late string) bool { return strings.Contains(reason, late) }) {
			return false
		}
	}
	return reasons > 0
}

func TestOnlyWhatIsLateIsTriedAgain(t *testing.T) {
	const late, wrong = "reason: 2 heartbeats had no answer for more than 1s\n", "reason: 1 live connections were closed\n"
	for stdout, want := range map[string]bool{
		"verdict pass\n": false, late + "verdict fail\n": true, wrong + "verdict fail\n": false, late + wrong + "verdict fail\n": false,
	} {
		require.Equal(t, want, isSlow(stdout), stdout)
	}
}

func TestBadFlagsExitWithOneClearLine(t *testing.T) {
	for args, want := range map[string]string{
		"-nonsense":                             "loadtest: flag provided but not defined: -nonsense",
		"-conns 0":                              "loadtest: -conns 0: must be 1 to 10000000",
		"-conns 10000001":                       "loadtest: -conns 10000001: must be 1 to 10000000",
		"-procs 0":                              "loadtest: -procs 0: must be auto or at least 1",
		"-procs many":                           "loadtest: -procs many: must be auto or at least 1",
		"-procs 5 -conns 4":                     "loadtest: -procs 5: must be at most -conns 4",
		"-probes -1":                            "loadtest: -probes -1: must be 0 to 10000",
		"-probes 1 -timeout 1s -interval 500ms": "loadtest: -timeout 1s: must be longer than the 1s between the heartbeats of the probes",
		"-quantum 2s":                           "loadtest: -quantum 2s: must be 0 to half of -interval 2s",
		"-quantum -1ms":                         "loadtest: -quantum -1ms: must be 0 to half of -interval 2s",
		"-baseline x":                           `loadtest: -baseline "x": must be gnet or net`,
		"-baseline gnet -storm":                 "loadtest: -storm: the server of -baseline gnet closes nobody",
		"-addr 127.0.0.1:1 -procs 2":            "loadtest: -addr 127.0.0.1:1: -server, -baseline and -procs are about servers of its own",
		"-addr 127.0.0.1:1 -netns":              "loadtest: -addr 127.0.0.1:1: can't be reached from the network namespace of -netns",
		"-storm -timeout 2s -interval 1s":       "loadtest: -timeout 2s: must be longer than -interval 1s and the 1s in which all fall silent",
		"-storm -silent 0.5":                    "loadtest: -silent 0.5: with -storm all fall silent",
		"-storm -duration 8s":                   "loadtest: -duration 8s: must be at least 9s, which are -timeout 6s, -interval 2s, and 1s in which all fall silent",
		"-silent 1.5":                           "loadtest: -silent 1.5: must be 0 to 1",
		"-silent NaN":                           "loadtest: -silent NaN: must be 0 to 1",
		"-ramp 0":                               "loadtest: -ramp 0: must be at least 1",
		"-interval 0s":                          "loadtest: -interval 0s: must be at least 1ms",
		"-interval 7s":                          "loadtest: -timeout 6s: must be longer than -interval 7s, or live connections are closed",
		"-timeout 2562047h47m16s":               "loadtest: -timeout 2562047h47m16s: must be at most 1000h0m0s",
		"-tick 10s":                             "loadtest: -tick 10s: must be 1ms to -timeout 6s, or 0",
		"-duration 7s":                          "loadtest: -duration 7s: must be at least 8s, which are -timeout 6s and -interval 2s",
		"more":                                  `loadtest: unexpected argument "more": there are only flags`,
		"-conns 5 -timeout fortnight":           `loadtest: invalid value "fortnight" for flag -timeout: parse error`,
		"-timeout 30s -duration 31.9s":          "loadtest: -duration 31.9s: must be at least 32s, which are -timeout 30s and -interval 2s",
	} {
		exit, stdout, stderr := load(strings.Fields(args)...)
		require.Equal(t, exitUsage, exit, args)
		require.Empty(t, stdout)
		require.Equal(t, want+"\n", stderr)
	}
	exit, _, stderr := load("-h")
	require.Zero(t, exit)
	for _, name := range []string{"-addr", "-conns", "-silent", "-interval", "-timeout", "-tick", "-ramp", "-duration", "-json", "-procs", "-baseline", "-reply", "-probes", "-quantum", "-storm", "-netns", "-html"} {
		require.Contains(t, stderr, name)
	}
}

func TestScheduleVisitsEachConnectionOncePerInterval(t *testing.T) {
	s := newSchedule(500, 0, 10*time.Second, rand.New(rand.NewPCG(1, 2)))
	last := time.Duration(-1)
	for cycle := range uint64(4) {
		seen := map[int32]bool{}
		for range 500 {
			at := s.peek()
			require.GreaterOrEqual(t, at, last)
			last = at
			conn, c := s.pop()
			require.Equal(t, cycle, c)
			require.Equal(t, at, s.due(conn, c))
			require.False(t, seen[conn])
			seen[conn] = true
		}
	}
	require.False(t, slices.IsSorted(s.order), "the phases have nothing to do with the order of opening")
}

func TestPickSilent(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		conns int
		share float64
		want  int
	}{{10, 0, 0}, {10, 1, 10}, {10, 0.1, 1}, {3, 0.5, 2}, {10_000, 0.1, 1000}, {1, 0.01, 1}} {
		got := pickSilent(c.conns, c.share, rnd)
		slices.Sort(got)
		require.Len(t, got, c.want)
		require.Equal(t, got, slices.Compact(slices.Clone(got)))
	}
}

func TestReportIsOnePageAndJSON(t *testing.T) {
	r := &report{Verdict: pass, Reasons: []string{}, Server: &serverReport{RSSBytes: 12_300_000, CPUSeconds: 1.5}}
	r.Conns.Requested, r.Silent.Closed, r.Live.Heartbeats = 10, 1, 7
	var out strings.Builder
	r.writeTable(&out)
	require.Contains(t, out.String(), "peak RSS 12.3 MB")
	require.True(t, strings.HasSuffix(out.String(), "\nverdict pass\n"), out.String())

	r.fail("%d of them", 3)
	out.Reset()
	r.writeTable(&out)
	require.True(t, strings.HasSuffix(out.String(), "\nreason: 3 of them\nverdict fail\n"), out.String())

	file := filepath.Join(t.TempDir(), "r.json")
	require.NoError(t, r.writeJSON(file))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(b, &fields))
	none := map[string]any{"p50": 0.0, "p99": 0.0, "max": 0.0}
	for name, want := range map[string]any{
		"conns": map[string]any{"requested": 10.0, "established": 0.0, "failed": 0.0},
		"silent": map[string]any{
			"count": 0.0, "closed": 1.0, "early": 0.0, "unclosed": 0.0, "late_ms": none, "first_to_last_s": 0.0,
		},
		"live": map[string]any{"count": 0.0, "wrongly_closed": 0.0, "heartbeats": 7.0, "rtt_ms": none},
		"server": map[string]any{
			"processes": 0.0, "rss_bytes": 12_300_000.0, "steady_rss_bytes": 0.0, "bytes_per_conn": 0.0,
			"steady_cores": 0.0, "cpu_seconds": 1.5,
		},
		"client": map[string]any{
			"rss_bytes": 0.0, "bytes_per_conn": 0.0, "steady_cores": 0.0, "lag_ms": none, "other_cores": 0.0,
		},
		"connect_per_second": 0.0,
		"verdict":            "fail",
		"reasons":            []any{"3 of them"},
	} {
		require.Equal(t, want, fields[name], name)
	}
	require.Error(t, r.writeJSON(filepath.Join(file, "no such folder", "r.json")))
}

func TestProgressLine(t *testing.T) {
	var c counters
	c.established.Store(5)
	var out strings.Builder
	stop := showProgress(&out, &c)
	stop()
	require.Empty(t, out.String(), "nothing to tell yet, and no terminal to clean")
}
