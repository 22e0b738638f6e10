package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/heartwheel-go/heartwheel/internal/sink"
)

// Names follow Prometheus: base units, _total for what only grows.
var (
	all sink.Descs

	conns    = desc("connections", "Connections that are guarded.")
	leaving  = desc("connections_leaving", "Connections that are being closed, to which last words are said.")
	maxConns = desc("connections_limit", "How many connections may be guarded (MaxConns), 0 for any number.")
	opened   = desc("connections_opened_total", "Connections that were guarded.")
	refused  = desc("connections_refused_total",
		"Connections that were closed as they came: too many in all (full), or of one peer (per_key), or the server going down (drain). Also calls of SetKey for a user with too many (per_user).", "reason")
	closed     = desc("connections_closed_total", "Connections that were guarded and were closed, by reason.", "reason")
	wouldClose = desc("connections_would_close_total", "Connections that a dry run would have closed, by reason.", "reason")
	evictions  = desc("evictions_total", "Connections that were closed to make room for others.")
	ages       = desc("connection_age_seconds", "How old connections were when they were closed.")

	spared     = desc("spared_total", "Deadlines that passed while the socket had heard of the peer. With ActivityKernel that is the rule.")
	slow       = desc("slow_total", "Deadlines among those of spared_total that passed while bytes waited, because this program does not read them.")
	probes     = desc("probes_total", "Probes that were sent.")
	roundTrips = desc("probe_round_trip_seconds", "How long peers took to answer probes.")
	panics     = desc("panics_total", "Functions of the program that panicked.")
	draining   = desc("draining", "1 while new connections are refused because the server is going down.")
	timeout    = desc("timeout_seconds", "How long a connection may be silent that has no timeout of its own (Timeout).")
	scale      = desc("timeout_scale_ratio", "What pressure leaves of timeouts: 1 is all.")

	nearMisses = desc("near_misses_total", "Silences that ended in the last fifth of the timeout. Needs Advise.")
	gaps       = desc("idle_gaps_total", "Silences that were at least that share of the timeout. Needs Advise.", "at_least")

	tick     = desc("tick_seconds", "How precise deadlines are (Tick).")
	passes   = desc("tick_duration_seconds", "How long the wheel took for the slots of a tick.")
	lateness = desc("expiry_lateness_seconds", "How much later than its tick an expiry was decided.")
	due      = desc("expiry_due", "Connections whose deadlines have passed, and whose decision is still to come.")
	backlog  = desc("expiry_backlog", "Connections among them that no worker has taken up.")
	refiled  = desc("refiled_total", "Visits of the wheel that found a deadline moved.")
	saved    = desc("saved_total", "Connections that were heard after their deadline and before it was decided.")
	stalls   = desc("stalls_total", "Times at which the process was stopped, which counts in nobody's timeout.")
	stalled  = desc("stall_seconds_total", "How long these were together.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return all.Add(name, help, labels...)
}
