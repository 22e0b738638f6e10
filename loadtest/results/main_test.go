package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// write writes reports, each in a file of its own, and returns their page.
func write(t *testing.T, reports ...string) string {
	dir := t.TempDir()
	var files []string
	for i, r := range reports {
		file := filepath.Join(dir, fmt.Sprint(i, ".json"))
		require.NoError(t, os.WriteFile(file, []byte(r), 0o600))
		files = append(files, file)
	}
	out := filepath.Join(dir, "RESULTS.md")
	require.NoError(t, run(out, files))
	b, err := os.ReadFile(out)
	require.NoError(t, err)
	return string(b)
}

const template = `{"run": {"server": "%s", "procs": 6, "interval_s": 10, "timeout_s": 30, "tick_ms": 100, "reply": true},
	"conns": {"requested": 100000}, "server": {"bytes_per_conn": %v, "steady_cores": %v},
	"silent": {"count": 10, "closed": 10, "early": %v, "late_ms": {"p50": 50, "p99": %v, "max": %[5]v}},
	"live": {"rtt_ms": {"p50": 0.5, "p99": 12}}, "verdict": "pass"}`

func TestRoundsOfARunAreOneRow(t *testing.T) {
	page := write(t,
		fmt.Sprintf(template, "heartwheel", 640, 0.101, 0, 100),
		fmt.Sprintf(template, "gnet", 550, 0.1, 0, 0),
		fmt.Sprintf(template, "heartwheel", 650, 0.102, 1, 120),
		fmt.Sprintf(template, "net", 2000, 0.3, 0, 1),
		fmt.Sprintf(template, "heartwheel", 600, 0.109, 0, 130),
	)
	for _, row := range []string{
		"| 100,000 | heartwheel | 10 s, 30 s, none | 6 | 0 | 0.50, 12 | 50, 120, 130 | 1 | 0 | 0 | 0.10, 0.00, 0.00 | 3 |",
		"Of 6 targets 4 are met",
		"| not met | at most | measured |\n|---|---:|---:|\n| 100,000 connections: closed early, closed wrongly or lost | 0 | 1 |\n| 100,000 connections: memory per connection, of that with a goroutine each | 20 % | 32 % |\n",
	} {
		require.Contains(t, page, row)
	}
	require.Less(t, strings.Index(page, "| heartwheel |"), strings.Index(page, "| gnet |"))
	require.NotContains(t, page, "All fall silent")
	require.Less(t, strings.Index(page, "## What it costs"), strings.Index(page, "## Targets"), "results come first")
}

func TestStormsHaveATableOfTheirOwn(t *testing.T) {
	var r map[string]any
	require.NoError(t, json.Unmarshal([]byte(fmt.Sprintf(template, "heartwheel", 640, 0.1, 0, 1500)), &r))
	r["run"].(map[string]any)["storm"] = true
	r["run"].(map[string]any)["probes"] = 1
	r["conns"] = map[string]any{"requested": 100_001}
	r["phases"] = []any{map[string]any{"phase": "closing", "probes_ms": map[string]any{"p50": 1, "p99": 51, "max": 99}}}
	r["reasons"], r["verdict"] = []string{"it rained"}, "fail"
	b, err := json.Marshal(r)
	require.NoError(t, err)
	page := write(t, string(b))
	for _, row := range []string{
		"| 100,000 | 0.00 | 50, 1500, 1500 | 0 | 0 | 1.00, 51, 99 | 0 | 1 |",
		"| 100,000 connections, all silent at once: round trip p99 of the live ones meanwhile | 50 ms | 51 ms |",
		"| 100,000 connections, all silent at once: runs that have not passed | 0 | 1 |",
		"0 of 1 passed\n    - it rained\n",
	} {
		require.Contains(t, page, row)
	}
}

func TestBadReports(t *testing.T) {
	require.ErrorContains(t, run("", nil), "no reports")
	require.ErrorContains(t, run("", []string{"/no/such/file"}), "/no/such/file")
	file := filepath.Join(t.TempDir(), "x.json")
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	require.ErrorContains(t, run("", []string{file}), "x.json: unexpected end of JSON input")
}

func TestOtherFilesAreNoReports(t *testing.T) {
	for _, text := range []string{`{}`, `null`, `{"run":{"server":"net"},"conns":{"requested":10}}`, `{"run":{"server":"net"},"verdict":"pass"}`} {
		file := filepath.Join(t.TempDir(), "other.json")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.ErrorContains(t, run("", []string{file}), "other.json: no report of loadtest -json", text)
	}
}
