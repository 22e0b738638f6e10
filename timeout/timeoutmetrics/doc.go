// Package timeoutmetrics shows Prometheus what a timeout center does.
//
//	prometheus.MustRegister(timeoutmetrics.New(center))
//
// [New] has the figures of one node. They are read when they are scraped, and cost tasks nothing.
// [NewTopics] has those of the engine, and asks it at each scrape. All nodes of an engine
// would show the same, so one is enough. No label grows with the tasks.
//
// deploy/prometheus has alerts.
package timeoutmetrics
