// Package otel shows how OpenTelemetry gets the figures of a Keeper: by its bridge for Prometheus.
// The example is the test.
package otel
