package main

import (
	"math"
	"sync/atomic"
	"time"
)

// history is a whole run, for the page.
type history struct {
	series  *series
	samples []sample
	line    *timeline     // nil if the ramp was not over
	end     time.Duration // of the run
}

// maxPoints is how many intervals the page has at most.
const maxPoints = 600

// point is one interval of the page: one bin, or several.
type point struct {
	from, to time.Duration
	events   [events]int64
	waits    [waits]quantiles
}

// quantiles are in milliseconds, and NaN of nothing.
type quantiles struct{ p50, p99, max float64 }

// points returns the run from its start to its end.
func (h *history) points() []point {
	each := int(h.end/h.series.width)/maxPoints + 1
	width := h.series.width * time.Duration(each)
	// What is left at the end is too short for a rate, and goes into the last.
	points := make([]point, max(1, h.end/width))
	for n := range points {
		p := &points[n]
		p.from, p.to = time.Duration(n)*width, time.Duration(n+1)*width
		first, next := n*each, (n+1)*each
		if n == len(points)-1 {
			next, p.to = maxBins, max(h.end, p.from+1)
		}
		p.fill(h.series.bins[min(first, maxBins):min(next, maxBins)])
	}
	return points
}

func (p *point) fill(bins []atomic.Pointer[bin]) {
	var sums [waits]sum
	for i := range bins {
		if b := bins[i].Load(); b != nil {
			p.add(b, &sums)
		}
	}
	for w := range waits {
		p.waits[w] = sums[w].quantiles()
	}
}

func (p *point) add(b *bin, sums *[waits]sum) {
	for e := range events {
		p.events[e] += b.events[e].Load()
	}
	for w := range waits {
		sums[w].add(&b.waits[w])
	}
}

func (p *point) seconds() float64 { return (p.to - p.from).Seconds() }

// sum is several spreads together.
type sum struct {
	buckets [spreadBuckets]int64
	count   int64
	largest int64
}

func (s *sum) add(other *spread) {
	for i := range s.buckets {
		n := int64(other.buckets[i].Load())
		s.buckets[i] += n
		s.count += n
	}
	s.largest = max(s.largest, other.largest.Load())
}

func (s *sum) quantiles() quantiles {
	if s.count == 0 {
		return quantiles{math.NaN(), math.NaN(), math.NaN()}
	}
	const usPerMs = 1000.0
	return quantiles{s.at(0.5) / usPerMs, s.at(0.99) / usPerMs, float64(s.largest) / usPerMs}
}

// at returns the q-quantile for a share q.
func (s *sum) at(share float64) float64 {
	rank := int64(math.Ceil(share * float64(s.count)))
	for i, n := range s.buckets {
		if rank -= n; rank <= 0 {
			return min(middleOf(i), float64(s.largest))
		}
	}
	return float64(s.largest)
}
