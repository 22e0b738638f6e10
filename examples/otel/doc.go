// Package otel shows how OpenTelemetry gets the figures of a Keeper: by its bridge for Prometheus.
// Its test has a receiver of OTLP. Another test carries a trace through a task of the timeout center.
package otel
