package api

import (
	"context"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/dashboardtest"
	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	alerts    = "../../../../deploy/prometheus/timeoutd."
	dashboard = "../../../../deploy/grafana/timeoutd.json"
)

// Every metric in an alert, in its tests and on the dashboard exists, and the dashboard shows all.
func TestAlertsAndTheDashboardAskForWhatThereIs(t *testing.T) {
	s := start(t, Config{OldestTransaction: func(context.Context) (time.Duration, error) { return time.Minute, nil }})
	s.run(map[string]timeout.Handler{"t": func(context.Context, timeout.Task) error { return nil }})
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/a", `{}`)
	var metrics string
	eventually(t, func() bool { // a node has no figures of a topic before it serves it
		metrics = s.ask(http.StatusOK, http.MethodGet, "/metrics", "")
		return strings.Contains(metrics, `heartwheel_timeout_done_total{topic="t"} 1`)
	}, "the task is done")
	have := make(map[string]bool)
	asked := strings.Join(dashboardtest.Expressions(t, dashboard), "\n")
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (heartwheel_\S+) (\w+)$`).FindAllStringSubmatch(metrics, -1) {
		have[line[1]] = true
		require.Contains(t, asked, line[1])
		if line[2] == "histogram" {
			have[line[1]+"_bucket"] = true
		}
	}
	files, err := filepath.Glob(alerts + "*.yml")
	require.NoError(t, err)
	require.Len(t, files, 2)
	dashboardtest.AskForWhatThereIs(t, have, append(files, dashboard)...)
}
