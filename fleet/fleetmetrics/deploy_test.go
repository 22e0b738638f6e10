package fleetmetrics

import (
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
	dashboardtest.AskForWhatThereIs(t, have, dashboard, alerts+"rules.yml", alerts+"test.yml")
}
