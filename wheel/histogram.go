package wheel

import (
	"math"
	"slices"
	"time"
)

// Histogram counts durations in buckets whose limits are 10, 20 and 50 microseconds
// and so on, up to some two months. It is what [Stats] says of lateness, and what this
// module has for every other duration of which more than the mean is of interest. The
// zero Histogram is empty. Copying it copies the counts.
type Histogram struct {
	Count uint64
	Sum   time.Duration
	Max   time.Duration

	// Buckets are how many were at most as long as Bound of that index, and longer than
	// that of the index before.
	Buckets [histogramBuckets]uint64
}

// histogramBuckets are three per decade, and one for what is longer.
const histogramBuckets = 3*12 + 1

var histogramBounds = func() (bounds [histogramBuckets]time.Duration) {
	decade := 10 * time.Microsecond
	for i := 0; i < histogramBuckets-1; i += 3 {
		bounds[i], bounds[i+1], bounds[i+2] = decade, 2*decade, 5*decade
		decade *= 10
	}
	bounds[histogramBuckets-1] = math.MaxInt64
	return bounds
}()

// Bound returns the longest duration of a bucket: for the last one that is the
// longest that there is.
func (Histogram) Bound(bucket int) time.Duration { return histogramBounds[bucket] }

// Observe counts a duration. Less than 0 counts as 0. It must not be called by two
// goroutines at the same time.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	bucket, _ := slices.BinarySearch(histogramBounds[:], d)
	h.Buckets[bucket]++
	h.Count++
	h.Max = max(h.Max, d)
	if h.Sum += d; h.Sum < 0 {
		h.Sum = math.MaxInt64
	}
}

// Mean returns the mean, or 0 where there is nothing.
func (h Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return time.Duration(uint64(h.Sum) / h.Count)
}

// Quantile returns a duration than which that share of all, from 0 to 1, is not
// longer: the limit of a bucket, or Max where that is less. It is 0 where there is
// nothing.
func (h Histogram) Quantile(share float64) time.Duration {
	if h.Count == 0 {
		return 0
	}
	rank := uint64(math.Ceil(min(max(share, 0), 1) * float64(h.Count)))
	seen := uint64(0)
	for i, n := range h.Buckets {
		if seen += n; seen >= max(rank, 1) {
			return min(histogramBounds[i], h.Max)
		}
	}
	return h.Max
}
