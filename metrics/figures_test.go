package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/connpool"
	"github.com/heartwheel-go/heartwheel/heartbeat"
	"github.com/heartwheel-go/heartwheel/internal/sink"
	"github.com/heartwheel-go/heartwheel/keepalive/ssekeepalive"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// scrape returns the samples of a page, one in a line.
func scrape(descs sink.Descs, collect func(sink.Sink)) string {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(sink.Collector(descs, collect))
	page := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var samples strings.Builder
	for line := range strings.Lines(page.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			samples.WriteString(line)
		}
	}
	return samples.String()
}

// Each field has a value of its own, so none can take the place of another.
func TestEachFigureOfABeaterHasItsName(t *testing.T) {
	s := heartbeat.Stats{
		Conns: 1, Beats: 2, Unanswered: 3, Failed: 4, Panics: 5,
		Wheel: wheel.Stats{Stalls: 6, Stalled: 7500 * time.Millisecond, Panics: 8},
	}
	require.Equal(t, `heartwheel_heartbeat_beats_total 2
heartwheel_heartbeat_connections 1
heartwheel_heartbeat_failed_total 4
heartwheel_heartbeat_panics_total 5
heartwheel_heartbeat_stall_seconds_total 7.5
heartwheel_heartbeat_stalls_total 6
heartwheel_heartbeat_unanswered_total 3
`, scrape(beaterAll, func(to sink.Sink) { collectBeater(to, s) }))
}

func TestEachFigureOfAPoolHasItsName(t *testing.T) {
	s := connpool.Stats{
		Open: 16, Idle: 1, InUse: 2, Closing: 13, MaxOpen: 33, Dialing: 4, Waiting: 5,
		Gets: 6, Waits: 7, WaitTime: 8500 * time.Millisecond,
		Dials: 9, DialErrors: 10, Taken: 21, Panics: 12, Leaking: 22, Leaks: 23, Hanging: 24,
	}
	for _, r := range connpool.Reasons() {
		s.Closed[r] = 100 + uint64(r)
	}
	require.Equal(t, `heartwheel_connpool_checks_hanging 24
heartwheel_connpool_connections{state="closing"} 13
heartwheel_connpool_connections{state="idle"} 1
heartwheel_connpool_connections{state="in_use"} 2
heartwheel_connpool_connections_closed_total{reason="check"} 104
heartwheel_connpool_connections_closed_total{reason="closed"} 107
heartwheel_connpool_connections_closed_total{reason="dropped"} 105
heartwheel_connpool_connections_closed_total{reason="idle"} 101
heartwheel_connpool_connections_closed_total{reason="max_age"} 102
heartwheel_connpool_connections_closed_total{reason="max_idle"} 103
heartwheel_connpool_connections_closed_total{reason="reset"} 106
heartwheel_connpool_connections_limit 33
heartwheel_connpool_connections_taken_total 21
heartwheel_connpool_dial_errors_total 10
heartwheel_connpool_dials_running 4
heartwheel_connpool_dials_total 9
heartwheel_connpool_gets_total 6
heartwheel_connpool_leaks_total 23
heartwheel_connpool_leases_leaking 22
heartwheel_connpool_panics_total 12
heartwheel_connpool_wait_seconds_total 8.5
heartwheel_connpool_waiting 5
heartwheel_connpool_waits_total 7
`, scrape(poolAll, func(to sink.Sink) { collectPool(to, s) }))
}

func TestEachFigureOfEventStreamsHasItsName(t *testing.T) {
	s := ssekeepalive.Stats{Streams: 1, Comments: 2, Withheld: 3, Slow: 4, Failed: 5, Wheel: wheel.Stats{Panics: 6}}
	require.Equal(t, `heartwheel_sse_comments_total 2
heartwheel_sse_failed_total 5
heartwheel_sse_panics_total 6
heartwheel_sse_slow_total 4
heartwheel_sse_streams 1
heartwheel_sse_withheld_total 3
`, scrape(streamsAll, func(to sink.Sink) { collectStreams(to, s) }))
}
