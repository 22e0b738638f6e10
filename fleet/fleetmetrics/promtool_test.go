//go:build interop

package fleetmetrics

import (
	"testing"

	"github.com/heartwheel-go/heartwheel/internal/dashboardtest"
)

func TestPromtoolTakesTheAlerts(t *testing.T) {
	dashboardtest.PromtoolTakesAlerts(t, alerts+"rules.yml", alerts+"test.yml")
}

func TestPromtoolTakesTheDashboard(t *testing.T) { dashboardtest.PromtoolTakesDashboard(t, dashboard) }
