// Package dashboardtest reads dashboards of Grafana and alerts of Prometheus for tests.
package dashboardtest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Expressions returns the queries of a dashboard. Each panel has a title, and asks for something.
func Expressions(t *testing.T, dashboard string) (found []string) {
	b, err := os.ReadFile(dashboard)
	require.NoError(t, err)
	var d struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(b, &d))
	for _, p := range d.Panels {
		require.NotEmpty(t, p.Title)
		require.True(t, p.Type == "row" || len(p.Targets) > 0, "panel %q asks for nothing", p.Title)
		for _, target := range p.Targets {
			found = append(found, target.Expr)
		}
	}
	require.NotEmpty(t, found)
	return found
}

var metric = regexp.MustCompile(`heartwheel_[a-z_]+`)

// AskForWhatThereIs requires metrics in each of the files, and of each metric that have knows its name.
func AskForWhatThereIs(t *testing.T, have map[string]bool, files ...string) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		names := metric.FindAllString(string(text), -1)
		require.Greater(t, len(names), 5)
		for _, name := range names {
			require.True(t, have[name], "%s in %s", name, file)
		}
	}
}

// Promtool requires that promtool succeeds. It comes with Debian's package prometheus.
func Promtool(t *testing.T, stdin []byte, args ...string) {
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "promtool %v: %s", args, out)
}

// PromtoolTakesAlerts requires that promtool finds no fault with alerts, and that their tests pass.
func PromtoolTakesAlerts(t *testing.T, alerts, tests string) {
	Promtool(t, nil, "check", "rules", "--lint=all", "--lint-fatal", alerts)
	Promtool(t, nil, "test", "rules", tests)
}

var variable = regexp.MustCompile(`\$[a-z]+`)

// PromtoolTakesDashboard requires that promtool can parse the queries of a dashboard.
func PromtoolTakesDashboard(t *testing.T, dashboard string) {
	var rules strings.Builder
	rules.WriteString("groups: [{name: dashboard, rules: [")
	for i, expr := range Expressions(t, dashboard) {
		expr = variable.ReplaceAllLiteralString(strings.ReplaceAll(expr, "$__rate_interval", "5m"), ".*")
		rules.WriteString("{record: panel:" + strconv.Itoa(i) + ", expr: " + strconv.Quote(expr) + "},\n")
	}
	rules.WriteString("]}]")
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	require.NoError(t, os.WriteFile(file, []byte(rules.String()), 0o600))
	Promtool(t, nil, "check", "rules", file)
}
