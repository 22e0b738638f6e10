// Package otel shows how OpenTelemetry gets the figures of a Keeper: by its bridge for Prometheus.
// Its test has a receiver of OTLP.
package otel
