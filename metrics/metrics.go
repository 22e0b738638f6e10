package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heartwheel-go/heartwheel/internal/sink"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// New returns a collector of the figures of a Keeper. A registry returns prometheus.AlreadyRegisteredError if another
// Keeper has the same labels. The Keeper may be closed before: its counters stay. New panics without a Keeper from
// keepalive.New.
func New(k *keepalive.Keeper) prometheus.Collector {
	if k.Binder() == nil {
		panic("metrics: New needs a Keeper from keepalive.New")
	}
	return sink.Collector(all, func(to sink.Sink) {
		s, cfg := k.Stats(), k.Config()
		collectConns(to, s, cfg)
		collectPolicies(to, s, cfg)
		collectAdvice(to, s)
		collectWheel(to, s.Wheel, cfg)
	})
}

func collectConns(to sink.Sink, s keepalive.Stats, cfg keepalive.Config) {
	to.Gauge(conns, float64(s.Conns))
	to.Gauge(leaving, float64(s.Leaving))
	to.Gauge(maxConns, float64(cfg.Room.MaxConns))
	to.Counter(opened, s.Opened)
	to.Counter(refused, s.RefusedFull, "full")
	to.Counter(refused, s.RefusedPerKey, "per_key")
	to.Counter(refused, s.RefusedDrain, "drain")
	to.Counter(refused, s.RefusedPerUser, "per_user")
	for _, r := range keepalive.Reasons() {
		to.Counter(closed, s.Closed[r], r.String())
		to.Counter(wouldClose, s.WouldClose[r], r.String())
	}
	to.Counter(evictions, s.Closed[keepalive.ReasonEvicted])
	to.Histogram(ages, s.Ages, time.Second, 5_000_000*time.Second)
}

func collectPolicies(to sink.Sink, s keepalive.Stats, cfg keepalive.Config) {
	to.Counter(spared, s.Spared)
	to.Counter(slow, s.Slow)
	to.Counter(probes, s.Probes)
	to.Histogram(roundTrips, s.RoundTrips, 100*time.Microsecond, 50*time.Second)
	to.Counter(panics, s.Panics)
	to.Bool(draining, s.Draining)
	to.Gauge(timeout, cfg.Timeout.Seconds())
	to.Gauge(scale, 1-s.Reduction*(1-float64(cfg.Room.Pressure.Timeout)/float64(cfg.Timeout)))
}

// collectAdvice has what is zero without Config.Advise.
func collectAdvice(to sink.Sink, a keepalive.Stats) {
	to.Counter(nearMisses, a.NearMisses)
	for _, s := range a.Silences {
		to.Counter(gaps, s.Count, strconv.FormatFloat(s.Share, 'g', -1, 64))
	}
}

func collectWheel(to sink.Sink, s wheel.Stats, cfg keepalive.Config) {
	to.Gauge(tick, cfg.Tick.Seconds())
	to.Histogram(passes, s.Passes, 10*time.Microsecond, time.Second)
	to.Histogram(lateness, s.Late, time.Millisecond, 50*time.Second)
	to.Gauge(due, float64(s.Due))
	to.Gauge(backlog, float64(s.Backlog))
	to.Counter(refiled, s.Refiled)
	to.Counter(saved, s.Saved)
	to.Counter(stalls, s.Stalls)
	to.Seconds(stalled, s.Stalled)
}
