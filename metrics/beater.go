package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/heartwheel-go/heartwheel/heartbeat"
	"github.com/heartwheel-go/heartwheel/internal/sink"
)

var (
	beaterAll sink.Descs

	beaterConns      = ofBeater("connections", "Connections that send heartbeats.")
	beaterBeats      = ofBeater("beats_total", "Heartbeats that were sent.")
	beaterUnanswered = ofBeater("unanswered_total", "Connections that were closed since the server did not answer.")
	beaterFailed     = ofBeater("failed_total", "Connections that were closed since a heartbeat could not be sent.")
	beaterPanics     = ofBeater("panics_total", "Functions of the program that panicked.")
	beaterStalls     = ofBeater("stalls_total", "Times at which the process was stopped, and sent no heartbeats.")
	beaterStalled    = ofBeater("stall_seconds_total", "How long these were together.")
)

func ofBeater(name, help string) *prometheus.Desc {
	return beaterAll.Add("heartbeat_"+name, help)
}

// NewBeater returns a collector of the figures of a Beater, a client's heartbeats, as heartwheel_heartbeat_*. The Beater
// behind [heartbeat.Start] and [heartbeat.Run] is out of reach: make one with [heartbeat.New]. NewBeater panics without a
// Beater.
func NewBeater(b *heartbeat.Beater) prometheus.Collector {
	if b == nil {
		panic("metrics: NewBeater needs a Beater")
	}
	return sink.Collector(beaterAll, func(to sink.Sink) { collectBeater(to, b.Stats()) })
}

func collectBeater(to sink.Sink, s heartbeat.Stats) {
	to.Gauge(beaterConns, float64(s.Conns))
	to.Counter(beaterBeats, s.Beats)
	to.Counter(beaterUnanswered, s.Unanswered)
	to.Counter(beaterFailed, s.Failed)
	to.Counter(beaterPanics, s.Panics)
	to.Counter(beaterStalls, s.Wheel.Stalls)
	to.Seconds(beaterStalled, s.Wheel.Stalled)
}
