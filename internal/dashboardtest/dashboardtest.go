// Package dashboardtest reads dashboards of Grafana for tests.
package dashboardtest

import (
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

var variable = regexp.MustCompile(`\$[a-z]+`)

// Promtool fails the test if promtool can't parse the queries of a dashboard. It comes with Debian's package prometheus.
func Promtool(t *testing.T, dashboard string) {
	var rules strings.Builder
	rules.WriteString("groups: [{name: dashboard, rules: [")
	for i, expr := range Expressions(t, dashboard) {
		expr = variable.ReplaceAllLiteralString(strings.ReplaceAll(expr, "$__rate_interval", "5m"), ".*")
		rules.WriteString("{record: panel:" + strconv.Itoa(i) + ", expr: " + strconv.Quote(expr) + "},\n")
	}
	rules.WriteString("]}]")
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	require.NoError(t, os.WriteFile(file, []byte(rules.String()), 0o600))
	out, err := exec.CommandContext(t.Context(), "promtool", "check", "rules", file).CombinedOutput()
	require.NoError(t, err, "promtool: %s", out)
}
