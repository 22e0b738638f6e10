// Package metrics shows Prometheus what a Keeper does.
//
//	prometheus.MustRegister(metrics.New(k))
//
// [NewStreams] is for event streams, [NewBeater] and [NewPool] are for the heartbeats of a client and for an outbound
// pool.
//
// Figures are read when they are scraped: a connection or a heartbeat costs no more than
// without them. Every label value is there from the first scrape on, with a zero, so rate and
// alerts work before anything has happened. Only heartwheel_idle_gaps_total needs Config.Advise. No
// label grows with the connections or their addresses.
//
// A program with several Keepers tells them apart by a label:
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"listener": "mqtt"}, reg).MustRegister(metrics.New(k))
//
// The directory deploy/ has a dashboard and alerts.
package metrics
