// Package fleetmetrics shows Prometheus what a node of a fleet does.
//
//	prometheus.MustRegister(fleetmetrics.New(node))
//
// The figures are read when they are scraped, and cost sessions nothing.
package fleetmetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/heartwheel-go/heartwheel/fleet"
	"github.com/heartwheel-go/heartwheel/internal/sink"
)

var (
	all sink.Descs

	sessions = all.Add("fleet_sessions", "Sessions that this node has.")
	renewals = all.Add("fleet_renewals_total", "Leases of sessions that this node has extended.")
	beats    = all.Add("fleet_beats_total", "Times that this node has extended the lease of its own.")
	refused  = all.Add("fleet_refused_total", "Sessions that turned out to be another node's.")
	moved    = all.Add("fleet_moved_total", "Sessions of this node that were registered anew elsewhere.")
	lost     = all.Add("fleet_lost_total", "Sessions whose leases this node could not extend in time.")
	told     = all.Add("fleet_told_total", "Ends of sessions that OnOffline was told of.")
	untold   = all.Add("fleet_untold_total", "Times that OnOffline has failed.")
	held     = all.Add("fleet_held_total", "Times that nothing expired in a slot for a lease, after a gap or since too much would have.")
	failures = all.Add("fleet_failures_total", "Calls to Redis that have failed and whose error no caller got.")
	panics   = all.Add("fleet_panics_total", "Functions of the program that panicked or called runtime.Goexit.")
)

// New returns a collector of the figures of a node, as heartwheel_fleet_*. A registry returns
// prometheus.AlreadyRegisteredError if another node has the same labels. The node may be closed before: its counters
// stay. New panics without a node.
func New(node *fleet.Node) prometheus.Collector {
	if node == nil {
		panic("fleetmetrics: New needs a node")
	}
	return sink.Collector(all, func(to sink.Sink) { collect(to, node.Stats()) })
}

func collect(to sink.Sink, s fleet.Stats) {
	to.Gauge(sessions, float64(s.Sessions))
	to.Counter(renewals, s.Renewals)
	to.Counter(beats, s.Beats)
	to.Counter(refused, s.Refused)
	to.Counter(moved, s.Moved)
	to.Counter(lost, s.Lost)
	to.Counter(told, s.Told)
	to.Counter(untold, s.Untold)
	to.Counter(held, s.Held)
	to.Counter(failures, s.Failures)
	to.Counter(panics, s.Panics)
}
