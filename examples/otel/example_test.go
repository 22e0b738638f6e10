package otel

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/metrics"
)

// export is the code of docs/operations.md.
func export(ctx context.Context, k *keepalive.Keeper) (*metric.MeterProvider, error) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(metrics.New(k))
	exporter, err := otlpmetrichttp.New(ctx) // OTEL_EXPORTER_OTLP_ENDPOINT is its receiver
	if err != nil {
		return nil, err
	}
	reader := metric.NewPeriodicReader(exporter,
		metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(reg))))
	return metric.NewMeterProvider(metric.WithReader(reader)), nil
}
