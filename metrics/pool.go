package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/heartwheel-go/heartwheel/connpool"
	"github.com/heartwheel-go/heartwheel/internal/sink"
)

var (
	poolAll sink.Descs

	poolConns = ofPool("connections", "Open connections: idle, in use (also during a check), or closing (also if Close hangs).", "state")
	poolLimit = ofPool("connections_limit", "How many connections there may be (MaxOpen), running dials included; 0 for any number.")
	poolDials = ofPool("dials_running", "Dials that are under way.")
	poolGets  = ofPool("gets_total", "Calls of Get that returned a connection.")

	poolWaiting  = ofPool("waiting", "Calls of Get that wait.")
	poolWaits    = ofPool("waits_total", "Calls of Get that found no idle connection, and waited for one or for a dial.")
	poolWaitTime = ofPool("wait_seconds_total", "How long these waited together.")

	poolLeaking = ofPool("leases_leaking", "Leases out for longer than LeakAfter.")
	poolLeaks   = ofPool("leaks_total", "Leases that were out for longer than LeakAfter, also those that came back then.")
	poolHanging = ofPool("checks_hanging", "Checks that go on long after the end of their context.")

	poolDialled    = ofPool("dials_total", "Dials that were begun.")
	poolDialErrors = ofPool("dial_errors_total", "Dials that failed.")
	poolTaken      = ofPool("connections_taken_total", "Connections that left the pool open (Lease.Take).")
	poolClosed     = ofPool("connections_closed_total", "Connections that the pool closed, by reason.", "reason")
	poolPanics     = ofPool("panics_total", "Functions of the program that panicked.")
)

func ofPool(name, help string, labels ...string) *prometheus.Desc {
	return poolAll.Add("connpool_"+name, help, labels...)
}

// NewPool returns a collector of the figures of a [connpool.Pool], as heartwheel_connpool_*. Give each pool a label of its
// own. NewPool panics without a pool.
func NewPool[T any](p *connpool.Pool[T]) prometheus.Collector {
	if p == nil {
		panic("metrics: NewPool needs a pool")
	}
	return sink.Collector(poolAll, func(to sink.Sink) { collectPool(to, p.Stats()) })
}

func collectPool(to sink.Sink, s connpool.Stats) {
	to.Gauge(poolConns, float64(s.Idle), "idle")
	to.Gauge(poolConns, float64(s.InUse), "in_use")
	to.Gauge(poolConns, float64(s.Closing), "closing")
	to.Gauge(poolLimit, float64(s.MaxOpen))
	to.Gauge(poolDials, float64(s.Dialing))
	to.Counter(poolGets, s.Gets)
	to.Gauge(poolWaiting, float64(s.Waiting))
	to.Counter(poolWaits, s.Waits)
	to.Seconds(poolWaitTime, s.WaitTime)
	to.Gauge(poolLeaking, float64(s.Leaking))
	to.Counter(poolLeaks, s.Leaks)
	to.Gauge(poolHanging, float64(s.Hanging))
	to.Counter(poolDialled, s.Dials)
	to.Counter(poolDialErrors, s.DialErrors)
	to.Counter(poolTaken, s.Taken)
	for _, r := range connpool.Reasons() {
		to.Counter(poolClosed, s.Closed[r], r.String())
	}
	to.Counter(poolPanics, s.Panics)
}
