package otel

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is an OTLP receiver over HTTP.
type receiver struct {
	*httptest.Server
	exports chan map[string]*metricspb.Metric // by name
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{exports: make(chan map[string]*metricspb.Metric, 16)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		metrics, err := decode(request)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.exports <- metrics
		w.Header().Set("Content-Type", "application/x-protobuf") // an empty answer is an empty message
	}))
	t.Cleanup(r.Close)
	return r
}

func decode(request *http.Request) (map[string]*metricspb.Metric, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	var export collector.ExportMetricsServiceRequest
	if err := proto.Unmarshal(body, &export); err != nil {
		return nil, err
	}
	metrics := map[string]*metricspb.Metric{}
	for _, resource := range export.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				metrics[m.GetName()] = m
			}
		}
	}
	return metrics, nil
}

// value returns the value of a metric with one attribute, or of a metric without any.
func value(t *testing.T, m *metricspb.Metric, attribute ...string) float64 {
	points := m.GetGauge().GetDataPoints()
	if sum := m.GetSum(); sum != nil {
		require.True(t, sum.GetIsMonotonic())
		require.Equal(t, metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, sum.GetAggregationTemporality())
		points = sum.GetDataPoints()
	}
	for _, p := range points {
		var have []string
		for _, a := range p.GetAttributes() {
			have = append(have, a.GetKey(), a.GetValue().GetStringValue())
		}
		if len(have) == len(attribute) && (len(have) == 0 || have[0] == attribute[0] && have[1] == attribute[1]) {
			return p.GetAsDouble()
		}
	}
	require.Fail(t, "no such point", "%s %v", m.GetName(), attribute)
	return 0
}
