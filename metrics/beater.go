package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heartwheel-go/heartwheel/heartbeat"
)

var (
	beaterAll []*prometheus.Desc

	beaterConns      = ofBeater("connections", "Connections that send heartbeats.")
	beaterBeats      = ofBeater("beats_total", "Heartbeats that were sent.")
	beaterUnanswered = ofBeater("unanswered_total", "Connections that were closed since the server did not answer.")
	beaterFailed     = ofBeater("failed_total", "Connections that were closed since a heartbeat could not be sent.")
	beaterPanics     = ofBeater("panics_total", "Functions of the program that panicked.")
)

func ofBeater(name, help string) *prometheus.Desc {
	return describe(&beaterAll, "heartbeat_"+name, help)
}

// RegisterBeater registers the figures of a Beater, a client's heartbeats, as heartwheel_heartbeat_*.
// Its errors and unregister are those of [Register].
func RegisterBeater(reg prometheus.Registerer, b *heartbeat.Beater) (unregister func(), err error) {
	if reg == nil || b == nil {
		return nil, errors.New("metrics: RegisterBeater needs a Registerer and a Beater, and one of them is nil")
	}
	return add(reg, beaterAll, func(to sink) {
		s := b.Stats()
		to.gauge(beaterConns, float64(s.Conns))
		to.counter(beaterBeats, s.Beats)
		to.counter(beaterUnanswered, s.Unanswered)
		to.counter(beaterFailed, s.Failed)
		to.counter(beaterPanics, s.Panics)
	})
}
