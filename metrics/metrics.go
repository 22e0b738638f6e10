package metrics

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/wheel"
	"github.com/heartwheel-go/heartwheel/wheel/histogram"
)

// Register registers the figures of a Keeper. It returns the error of the registry, such as
// prometheus.AlreadyRegisteredError if another Keeper has the same labels. unregister takes
// the figures out again, and the registry then keeps the Keeper in memory no longer. Calling
// it again does nothing. The Keeper may be closed before: its counters stay.
func Register(reg prometheus.Registerer, k *keepalive.Keeper) (unregister func(), err error) {
	if reg == nil || k == nil {
		return nil, errors.New("metrics: Register needs a Registerer and a Keeper, and one of them is nil")
	}
	return add(reg, all, func(to sink) {
		s, cfg := k.Stats(), k.Config()
		collectConns(to, s, cfg)
		collectPolicies(to, s, cfg)
		collectAdvice(to, s)
		collectWheel(to, s.Wheel, cfg)
	})
}

func add(reg prometheus.Registerer, descs []*prometheus.Desc, collect func(sink)) (unregister func(), err error) {
	c := &collector{descs, collect}
	if err := reg.Register(c); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	// Once, since a registry goes by names: it would take out whoever came after.
	return sync.OnceFunc(func() { reg.Unregister(c) }), nil
}

// collector reads the figures when they are scraped.
type collector struct {
	descs   []*prometheus.Desc
	collect func(sink)
}

// Describe is prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect is prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) { c.collect(ch) }

func collectConns(to sink, s keepalive.Stats, cfg keepalive.Config) {
	to.gauge(conns, float64(s.Conns))
	to.gauge(leaving, float64(s.Leaving))
	to.gauge(maxConns, float64(cfg.Room.MaxConns))
	to.counter(opened, s.Opened)
	to.counter(refused, s.RefusedFull, "full")
	to.counter(refused, s.RefusedPerKey, "per_key")
	to.counter(refused, s.RefusedDrain, "drain")
	for _, r := range keepalive.Reasons() {
		to.counter(closed, s.Closed[r], r.String())
		to.counter(wouldClose, s.WouldClose[r], r.String())
	}
	to.counter(evictions, s.Closed[keepalive.ReasonEvicted])
	to.histogram(ages, s.Ages, time.Second, 5_000_000*time.Second)
}

func collectPolicies(to sink, s keepalive.Stats, cfg keepalive.Config) {
	to.counter(spared, s.Spared)
	to.counter(slow, s.Slow)
	to.counter(probes, s.Probes)
	to.histogram(roundTrips, s.RoundTrips, 100*time.Microsecond, 50*time.Second)
	to.counter(panics, s.Panics)
	to.gauge(draining, float64FromBool(s.Draining))
	to.gauge(timeout, cfg.Timeout.Seconds())
	to.gauge(scale, 1-s.Reduction*(1-float64(cfg.Room.Pressure.Timeout)/float64(cfg.Timeout)))
}

// collectAdvice has what is zero without Config.Advise.
func collectAdvice(to sink, a keepalive.Stats) {
	to.counter(nearMisses, a.NearMisses)
	for _, s := range a.Silences {
		to.counter(gaps, s.Count, strconv.FormatFloat(s.Share, 'g', -1, 64))
	}
}

func collectWheel(to sink, s wheel.Stats, cfg keepalive.Config) {
	to.gauge(tick, cfg.Tick.Seconds())
	to.histogram(passes, s.Passes, 10*time.Microsecond, time.Second)
	to.histogram(lateness, s.Late, time.Millisecond, 50*time.Second)
	to.gauge(due, float64(s.Due))
	to.gauge(backlog, float64(s.Backlog))
	to.counter(refiled, s.Refiled)
	to.counter(saved, s.Saved)
	to.counter(stalls, s.Stalls)
	to.seconds(stalled, s.Stalled)
}

func float64FromBool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// sink takes figures.
type sink chan<- prometheus.Metric

func (to sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (to sink) counter(d *prometheus.Desc, n uint64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func (to sink) seconds(d *prometheus.Desc, v time.Duration) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v.Seconds())
}

// histogram shows the buckets from one limit to another: what is below is in the first of
// them.
func (to sink) histogram(d *prometheus.Desc, h histogram.Durations, from, most time.Duration) {
	buckets, seen := map[float64]uint64{}, uint64(0)
	for i, n := range h.Buckets {
		seen += n
		if bound := h.Bound(i); from <= bound && bound <= most {
			buckets[bound.Seconds()] = seen
		}
	}
	to <- prometheus.MustNewConstHistogram(d, h.Count, h.Sum.Seconds(), buckets)
}
