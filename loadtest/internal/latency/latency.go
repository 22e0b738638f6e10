// Package latency sums up how long something took.
package latency

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Summary is a distribution in milliseconds.
type Summary struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Milliseconds is a duration in milliseconds.
func Milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// At returns the q-quantile of sorted values for a share q, or 0 of none.
func At(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(share*float64(len(sorted)))), 1)-1]
}

// SummaryOf returns the summary of sorted values.
func SummaryOf(sorted []time.Duration) Summary {
	return Summary{P50: Milliseconds(At(sorted, 0.5)), P99: Milliseconds(At(sorted, 0.99)), Max: Milliseconds(At(sorted, 1))}
}

// Histogram holds microseconds, up to ten minutes, with an error of 1 %. The zero value is empty
// and takes no memory. One goroutine may use it.
type Histogram struct{ h *hdrhistogram.Histogram }

func (h *Histogram) make() {
	const digits = 2
	if h.h == nil {
		h.h = hdrhistogram.New(1, (10 * time.Minute).Microseconds(), digits)
	}
}

// Record adds a value.
func (h *Histogram) Record(d time.Duration) {
	h.make()
	_ = h.h.RecordValue(min(max(d.Microseconds(), 1), h.h.HighestTrackableValue()))
}

// Add adds the values of another.
func (h *Histogram) Add(other Histogram) {
	if other.h != nil {
		h.make()
		h.h.Merge(other.h)
	}
}

const usPerMs = 1000.0

// Summary returns the summary of all values.
func (h *Histogram) Summary() Summary {
	if h.h == nil {
		return Summary{}
	}
	return Summary{
		P50: float64(h.h.ValueAtQuantile(50)) / usPerMs,
		P99: float64(h.h.ValueAtQuantile(99)) / usPerMs,
		Max: float64(h.h.Max()) / usPerMs,
	}
}

// Max returns the longest, or 0.
func (h *Histogram) Max() time.Duration {
	if h.h == nil {
		return 0
	}
	return time.Duration(h.h.Max()) * time.Microsecond
}

// Each calls f with each value in milliseconds and its number.
func (h *Histogram) Each(f func(ms float64, n int64)) {
	if h.h == nil {
		return
	}
	for _, b := range h.h.Distribution() {
		if b.Count > 0 {
			f(float64(b.From+b.To)/2/usPerMs, b.Count)
		}
	}
}
