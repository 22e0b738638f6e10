package main

import (
	"errors"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

var errNoAnswer = errors.New("no answer in time")

// result is what has happened to the connections of one worker, or of all.
type result struct {
	established, failed          int
	silent, closed, early        int
	unclosed                     int
	live, wronglyClosed, starved int
	tardy                        int // silent ones that were closed more than margin late
	heartbeats, unsent, stray    int64
	unanswered                   int64         // for more than margin
	ramp, end                    time.Duration // since the start
	firstFailure                 error
	firstClose, lastClose        time.Duration // of silent ones
	history                      *history      // of the whole run; nil if nobody wants it
	fleet                        *fleetReport  // nil if there is none

	late    histogram         // after the timeout
	ahead   histogram         // of it, those that were early
	lag     histogram         // from when a heartbeat was due until it was sent
	rtt     [phases]histogram // from when a heartbeat was due to its answer
	probing [phases]histogram // the same of the probes
}

// add adds what another worker has seen.
func (res *result) add(other *result) {
	res.established += other.established
	res.failed += other.failed
	res.silent += other.silent
	res.closed += other.closed
	res.early += other.early
	res.unclosed += other.unclosed
	res.live += other.live
	res.wronglyClosed += other.wronglyClosed
	res.starved += other.starved
	res.tardy += other.tardy
	res.heartbeats += other.heartbeats
	res.unsent += other.unsent
	res.stray += other.stray
	res.unanswered += other.unanswered
	if res.firstFailure == nil {
		res.firstFailure = other.firstFailure
	}
	if other.firstClose > 0 && (res.firstClose == 0 || other.firstClose < res.firstClose) {
		res.firstClose = other.firstClose
	}
	res.lastClose = max(res.lastClose, other.lastClose)
	res.late.add(other.late)
	res.ahead.add(other.ahead)
	res.lag.add(other.lag)
	for p := range phases {
		res.rtt[p].add(other.rtt[p])
		res.probing[p].add(other.probing[p])
	}
}

// sinceOpen returns the round trips of all phases after the ramp.
func (res *result) sinceOpen() *histogram {
	all := new(histogram)
	for p := ramping + 1; p < phases; p++ {
		all.add(res.rtt[p])
	}
	return all
}

// histogram holds microseconds, up to ten minutes, with an error of a hundredth.
// It takes no memory before it is used.
type histogram struct{ h *hdrhistogram.Histogram }

func (h *histogram) make() {
	const digits = 2
	if h.h == nil {
		h.h = hdrhistogram.New(1, (10 * time.Minute).Microseconds(), digits)
	}
}

func (h *histogram) record(d time.Duration) {
	h.make()
	_ = h.h.RecordValue(min(max(d.Microseconds(), 1), h.h.HighestTrackableValue()))
}

func (h *histogram) add(other histogram) {
	if other.h != nil {
		h.make()
		h.h.Merge(other.h)
	}
}

func (h *histogram) latency() latency {
	if h.h == nil {
		return latency{}
	}
	const usPerMs = 1000.0
	return latency{
		P50: float64(h.h.ValueAtQuantile(50)) / usPerMs,
		P99: float64(h.h.ValueAtQuantile(99)) / usPerMs,
		Max: float64(h.h.Max()) / usPerMs,
	}
}

// max returns the longest.
func (h *histogram) max() time.Duration {
	if h.h == nil {
		return 0
	}
	return time.Duration(h.h.Max()) * time.Microsecond
}

// each calls f with the values, in milliseconds, and how many there are of each.
func (h *histogram) each(f func(ms float64, n int64)) {
	if h.h == nil {
		return
	}
	const usPerMs = 1000.0
	for _, b := range h.h.Distribution() {
		if b.Count > 0 {
			f(float64(b.From+b.To)/2/usPerMs, b.Count)
		}
	}
}

// latency is a distribution in milliseconds.
type latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}
