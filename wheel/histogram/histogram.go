// Package histogram counts durations in buckets of fixed bounds: three per decade, from 10
// microseconds to two months. It serves this module for every duration with more of
// interest than its mean, such as lateness. HdrHistogram takes 10 KB and more for such a range, and
// the Prometheus client's would make every user of the wheel a user of that client.
package histogram

import (
	"math"
	"slices"
	"time"
)

// Durations is such a count. The zero Durations is empty. Copying it copies the counts.
type Durations struct {
	Count uint64
	Sum   time.Duration
	Max   time.Duration

	// Buckets are how many durations were at most Bound(i), and longer than Bound(i-1).
	Buckets [buckets]uint64
}

// buckets are three per decade, and one for longer durations.
const buckets = 3*12 + 1

var bounds = func() (bounds [buckets]time.Duration) {
	decade := 10 * time.Microsecond
	for i := 0; i < buckets-1; i += 3 {
		bounds[i], bounds[i+1], bounds[i+2] = decade, 2*decade, 5*decade
		decade *= 10
	}
	bounds[buckets-1] = math.MaxInt64
	return bounds
}()

// Bound returns the longest duration of a bucket: 10, 20 and 50 microseconds, and so on.
// For the last bucket it is the longest Duration.
func (Durations) Bound(bucket int) time.Duration { return bounds[bucket] }

// Observe counts a duration. Less than 0 counts as 0. It must not be called by two
// goroutines at the same time.
func (h *Durations) Observe(d time.Duration) {
	d = max(d, 0)
	bucket, _ := slices.BinarySearch(bounds[:], d)
	h.Buckets[bucket]++
	h.Count++
	h.Max = max(h.Max, d)
	if h.Sum += d; h.Sum < 0 {
		h.Sum = math.MaxInt64
	}
}

// Add adds the durations counted in another one. It must not be called by two goroutines at the same
// time.
func (h *Durations) Add(other Durations) {
	for i, n := range other.Buckets {
		h.Buckets[i] += n
	}
	h.Count += other.Count
	h.Max = max(h.Max, other.Max)
	if h.Sum += other.Sum; h.Sum < 0 {
		h.Sum = math.MaxInt64
	}
}

// Mean returns the mean, or 0 if nothing was counted.
func (h Durations) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return time.Duration(uint64(h.Sum) / h.Count)
}

// Quantile returns an upper bound of the q-quantile, with q from 0 to 1: the bound of a
// bucket, or Max if that is less. It is 0 if nothing was counted.
func (h Durations) Quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(h.Count)))
	seen := uint64(0)
	for i, n := range h.Buckets {
		if seen += n; seen >= max(rank, 1) {
			return min(bounds[i], h.Max)
		}
	}
	return h.Max
}
