package metrics

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/dashboardtest"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	dashboard = "../deploy/grafana/heartwheel.json"
	rules     = "../deploy/prometheus/heartwheel.rules.yml"
)

// names returns the names of all metrics, as queries know them.
func names(t *testing.T) map[string]bool {
	families, err := register(newKeeper(t, keepalive.Config{Advise: true})).Gather()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, f := range families {
		if f.GetMetric()[0].GetHistogram() == nil {
			names[f.GetName()] = true
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			names[f.GetName()+suffix] = true
		}
	}
	return names
}

var metricName = regexp.MustCompile(`heartwheel_[a-z_]+`)

func TestDashboardAsksOnlyForWhatThereIs(t *testing.T) {
	have := names(t)
	expressions := dashboardtest.Expressions(t, dashboard)
	require.Greater(t, len(expressions), 30)
	for _, expr := range expressions {
		for _, name := range metricName.FindAllString(expr, -1) {
			require.True(t, have[name], "%s in %s", name, expr)
		}
	}
}

func TestDashboardShowsAll(t *testing.T) {
	asked := strings.Join(dashboardtest.Expressions(t, dashboard), "\n")
	families, err := register(newKeeper(t, keepalive.Config{Advise: true})).Gather()
	require.NoError(t, err)
	for _, f := range families {
		require.Contains(t, asked, f.GetName())
	}
}

func TestAlertsAskOnlyForWhatThereIs(t *testing.T) {
	have := names(t)
	files, err := filepath.Glob("../deploy/prometheus/heartwheel.*.yml") // timeoutd tests its own
	require.NoError(t, err)
	require.Contains(t, files, rules)
	dashboardtest.AskForWhatThereIs(t, have, files...)
}

// Each label value of an alert exists.
func TestAlertsNameReasonsThatThereAre(t *testing.T) {
	reasons := map[string]bool{"full": true, "per_key": true, "per_user": true, "drain": true}
	for _, r := range keepalive.Reasons() {
		reasons[r.String()] = true
	}
	b, err := os.ReadFile(rules)
	require.NoError(t, err)
	text := string(b) + strings.Join(dashboardtest.Expressions(t, dashboard), "\n")
	selectors := regexp.MustCompile(`reason=~?"([^"]*)"`).FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, selectors)
	for _, s := range selectors {
		for _, reason := range strings.Split(s[1], "|") {
			require.True(t, reasons[reason], reason)
		}
	}
}
