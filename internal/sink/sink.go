// Package sink hands figures to Prometheus when they are scraped.
package sink

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heartwheel-go/heartwheel/wheel/histogram"
)

// Descs describe the metrics of a collector.
type Descs []*prometheus.Desc

// Add adds a metric, whose name gets the prefix heartwheel_.
func (d *Descs) Add(name, help string, labels ...string) *prometheus.Desc {
	added := prometheus.NewDesc("heartwheel_"+name, help, labels, nil)
	*d = append(*d, added)
	return added
}

// Collector returns a collector of these metrics. collect is called for each scrape, by several goroutines at the same
// time.
func Collector(descs Descs, collect func(Sink)) prometheus.Collector {
	return &collector{descs, collect}
}

type collector struct {
	descs   Descs
	collect func(Sink)
}

// Describe is prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect is prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) { c.collect(ch) }

// Sink takes the figures of one scrape.
type Sink chan<- prometheus.Metric

// Gauge hands over what goes up and down.
func (to Sink) Gauge(d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// Bool hands over 1 or 0.
func (to Sink) Bool(d *prometheus.Desc, b bool, labels ...string) {
	v := 0.0
	if b {
		v = 1
	}
	to.Gauge(d, v, labels...)
}

// Counter hands over what only grows.
func (to Sink) Counter(d *prometheus.Desc, n uint64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

// Seconds hands over a time that only grows.
func (to Sink) Seconds(d *prometheus.Desc, v time.Duration) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v.Seconds())
}

// Histogram hands over the buckets from one limit to another. The first one includes all shorter
// durations.
func (to Sink) Histogram(d *prometheus.Desc, h histogram.Durations, from, most time.Duration, labels ...string) {
	buckets, seen := map[float64]uint64{}, uint64(0)
	for i, n := range h.Buckets {
		seen += n
		if bound := h.Bound(i); from <= bound && bound <= most {
			buckets[bound.Seconds()] = seen
		}
	}
	to <- prometheus.MustNewConstHistogram(d, h.Count, h.Sum.Seconds(), buckets, labels...)
}
