package metrics

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heartwheel-go/heartwheel/internal/sink"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// Register registers the figures of a Keeper. It returns the error of the registry, such as
// prometheus.AlreadyRegisteredError if another Keeper has the same labels. unregister takes
// the figures out again, and the registry then keeps the Keeper in memory no longer. Calling
// it again does nothing. The Keeper may be closed before: its counters stay.
func Register(reg prometheus.Registerer, k *keepalive.Keeper) (unregister func(), err error) {
	if reg == nil || k.Binder() == nil {
		return nil, errors.New("metrics: Register needs a Registerer and a Keeper from keepalive.New")
	}
	return add(reg, all, func(to sink.Sink) {
		s, cfg := k.Stats(), k.Config()
		collectConns(to, s, cfg)
		collectPolicies(to, s, cfg)
		collectAdvice(to, s)
		collectWheel(to, s.Wheel, cfg)
	})
}

func add(reg prometheus.Registerer, descs sink.Descs, collect func(sink.Sink)) (unregister func(), err error) {
	unregister, err = sink.Register(reg, descs, collect)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return unregister, nil
}

func collectConns(to sink.Sink, s keepalive.Stats, cfg keepalive.Config) {
	to.Gauge(conns, float64(s.Conns))
	to.Gauge(leaving, float64(s.Leaving))
	to.Gauge(maxConns, float64(cfg.Room.MaxConns))
	to.Counter(opened, s.Opened)
	to.Counter(refused, s.RefusedFull, "full")
	to.Counter(refused, s.RefusedPerKey, "per_key")
	to.Counter(refused, s.RefusedDrain, "drain")
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
