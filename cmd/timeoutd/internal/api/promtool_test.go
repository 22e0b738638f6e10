//go:build interop

package api

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/dashboardtest"
)

// promtool comes with Debian's package prometheus.
func TestPromtoolTakesTheAlerts(t *testing.T) {
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", alerts + "rules.yml"},
		{"test", "rules", alerts + "test.yml"},
	} {
		out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
		require.NoError(t, err, "promtool %v: %s", args, out)
	}
}

func TestPromtoolTakesTheDashboard(t *testing.T) { dashboardtest.Promtool(t, dashboard) }
