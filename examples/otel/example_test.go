package otel

import (
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/metrics"
)

func TestOpenTelemetryHasTheFiguresOfAKeeper(t *testing.T) {
	k, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
	require.NoError(t, err)
	defer k.Close()
	reg := prometheus.NewRegistry()
	_, err = metrics.Register(reg, k)
	require.NoError(t, err)

	reader := metric.NewManualReader(metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(reg))))
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	defer func() { require.NoError(t, provider.Shutdown(t.Context())) }()

	here, there := net.Pipe()
	require.NoError(t, k.Conn(here).Close())
	k.Conn(there)

	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &got))
	data := map[string]metricdata.Aggregation{}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			data[m.Name] = m.Data
		}
	}
	timeout := data["heartwheel_timeout_seconds"].(metricdata.Gauge[float64])
	require.InDelta(t, 30, timeout.DataPoints[0].Value, 0)
	conns := data["heartwheel_connections"].(metricdata.Gauge[float64])
	require.InDelta(t, 1, conns.DataPoints[0].Value, 0)

	closed := data["heartwheel_connections_closed_total"].(metricdata.Sum[float64])
	require.True(t, closed.IsMonotonic)
	byReason := map[string]float64{}
	for _, point := range closed.DataPoints {
		reason, ok := point.Attributes.Value("reason")
		require.True(t, ok)
		byReason[reason.AsString()] = point.Value
	}
	require.Len(t, byReason, len(keepalive.Reasons()))
	require.InDelta(t, 1, byReason["local"], 0)
	require.Zero(t, byReason["idle"])

	ages := data["heartwheel_connection_age_seconds"].(metricdata.Histogram[float64])
	require.EqualValues(t, 1, ages.DataPoints[0].Count)
}
