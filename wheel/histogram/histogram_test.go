package histogram

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCountsEachDurationInTheFirstBucketThatHoldsIt(t *testing.T) {
	for _, tt := range []struct {
		d, bound time.Duration
	}{
		{-time.Second, 10 * time.Microsecond},
		{0, 10 * time.Microsecond},
		{10 * time.Microsecond, 10 * time.Microsecond},
		{10*time.Microsecond + 1, 20 * time.Microsecond},
		{time.Millisecond, time.Millisecond},
		{201 * time.Millisecond, 500 * time.Millisecond},
		{24 * time.Hour, 100_000 * time.Second},
		{5_000_000 * time.Second, 5_000_000 * time.Second},
		{5_000_001 * time.Second, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64},
	} {
		var h Durations
		h.Observe(tt.d)
		for i, n := range h.Buckets {
			require.Equal(t, h.Bound(i) == tt.bound, n == 1, "%v in the bucket up to %v", tt.d, h.Bound(i))
		}
		require.Equal(t, max(tt.d, 0), h.Sum)
		require.Equal(t, max(tt.d, 0), h.Mean())
	}
}

func TestQuantiles(t *testing.T) {
	var h Durations
	require.Zero(t, h.Quantile(0.5))
	require.Zero(t, h.Mean())
	for range 98 {
		h.Observe(3 * time.Millisecond)
	}
	h.Observe(70 * time.Millisecond)
	h.Observe(130 * time.Millisecond)
	require.Equal(t, 5*time.Millisecond, h.Quantile(0))
	require.Equal(t, 5*time.Millisecond, h.Quantile(0.5))
	require.Equal(t, 5*time.Millisecond, h.Quantile(0.98))
	require.Equal(t, 100*time.Millisecond, h.Quantile(0.99))
	require.Equal(t, 130*time.Millisecond, h.Quantile(1), "no longer than the longest")
	require.Equal(t, 130*time.Millisecond, h.Quantile(7))
	require.EqualValues(t, 100, h.Count)
	require.Equal(t, 4940*time.Microsecond, h.Mean())

	var two Durations
	two.Observe(3 * time.Millisecond)
	two.Observe(70 * time.Millisecond)
	require.Equal(t, 5*time.Millisecond, two.Quantile(0), "the shortest")
}

func TestDoesNotOverflow(t *testing.T) {
	var h Durations
	h.Observe(math.MaxInt64)
	h.Observe(math.MaxInt64)
	require.Equal(t, time.Duration(math.MaxInt64), h.Sum)
	h.Add(h)
	require.Equal(t, time.Duration(math.MaxInt64), h.Sum)
	require.EqualValues(t, 4, h.Count)
}

func TestASumIsAllThatWasCounted(t *testing.T) {
	var first, second, all Durations
	for i := range 101 { // the longest is in the second
		d := time.Duration(i*i) * time.Millisecond
		all.Observe(d)
		if i%3 == 0 {
			first.Observe(d)
		} else {
			second.Observe(d)
		}
	}
	first.Add(second)
	require.Equal(t, all, first)
	first.Add(Durations{})
	require.Equal(t, all, first)
}
