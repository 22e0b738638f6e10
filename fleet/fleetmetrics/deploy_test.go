package fleetmetrics

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/fleet"
	"github.com/heartwheel-go/heartwheel/internal/dashboardtest"
	"github.com/heartwheel-go/heartwheel/internal/sink"
)

const (
	alerts    = "../../deploy/prometheus/fleet."
	dashboard = "../../deploy/grafana/fleet.json"
)

// Every metric in an alert, in its tests and on the dashboard exists, and the dashboard shows all.
func TestAlertsAndTheDashboardAskForWhatThereIs(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(sink.Collector(all, func(to sink.Sink) { collect(to, fleet.Stats{}) }))
	families, err := reg.Gather()
	require.NoError(t, err)
	asked := strings.Join(dashboardtest.Expressions(t, dashboard), "\n")
	have := make(map[string]bool)
	for _, family := range families {
		have[family.GetName()] = true
		require.Contains(t, asked, family.GetName())
	}
	for _, file := range []string{dashboard, alerts + "rules.yml", alerts + "test.yml"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		names := regexp.MustCompile(`heartwheel_[a-z_]+`).FindAllString(string(text), -1)
		require.Greater(t, len(names), 5)
		for _, name := range names {
			require.True(t, have[name], "%s in %s", name, file)
		}
	}
}
