// Package metrics shows Prometheus what a Keeper does.
//
//	unregister, err := metrics.Register(prometheus.DefaultRegisterer, k)
//
// All of it is read when it is scraped; nothing is added to what a connection or a
// heartbeat costs. Every label value is there from the first scrape on, with a zero, so
// that rate and alerts work for what has not happened yet. No label grows with the
// connections or their addresses.
//
// A program with several Keepers tells them apart by a label:
//
//	metrics.Register(prometheus.WrapRegistererWith(prometheus.Labels{"listener": "mqtt"}, reg), k)
//
// The directory deploy/ has a dashboard and alerts.
package metrics
