package postgres

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func at(ms int64) *int64 { return &ms }

func TestAFrontCountsAsLongAsNobodyCanHaveFiledATaskBeforeIt(t *testing.T) {
	start := time.Now()
	after := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	f := newFrontier()
	get := func(s float64) (front front, look bool) { return f.get(after(s)) }

	known, look := get(0)
	require.True(t, look)
	require.Equal(t, unknown, known)
	_, look = get(0)
	require.False(t, look, "one look at a time")
	f.looked(seen{now: 100_000, past: 7}, after(0), after(0.01))
	known, look = get(1)
	require.False(t, look)
	require.Equal(t, unknown, known, "what was told of just before may not be committed yet")

	_, look = get(1.01)
	require.True(t, look)
	f.looked(seen{now: 101_000, past: 7}, after(1.01), after(1.02))
	known, look = get(1.5)
	require.False(t, look)
	require.Equal(t, front{past: 7, at: 101_000, waiting: 99_000, running: 99_000, ahead: math.MaxInt64}, known, "a bit behind the clock")
	f.leases(30_000)
	f.leases(40_000)
	known, _ = get(1.5)
	require.EqualValues(t, 131_000, known.ahead, "the first lease that this engine can have given since")

	_, look = get(2.02)
	require.True(t, look)
	f.looked(seen{now: 102_000, past: 7, due: at(50_000), running: at(120_000)}, after(2.02), after(2.32))
	known, look = get(5.3)
	require.False(t, look, "a slow look is not repeated soon")
	require.Equal(t, front{past: 7, at: 102_000, waiting: 50_000, running: 100_000, ahead: 120_000}, known)
	_, look = get(5.32)
	require.True(t, look)
	f.looked(seen{now: 105_000, past: 8, running: at(90_000)}, after(5.32), after(5.33))
	known, _ = get(5.4)
	require.EqualValues(t, 7, known.past, "the server sees that this is over")
	_, look = get(6.35)
	require.True(t, look)
	f.looked(seen{now: 106_000, past: 8, running: at(90_000)}, after(6.35), after(6.36))
	known, _ = get(6.4)
	require.Equal(t, front{past: 8, at: 106_000, waiting: 104_000, running: 90_000, ahead: 90_000}, known)

	_, look = get(7.4)
	require.True(t, look)
	f.failed(after(9.3))
	known, look = get(9.34)
	require.False(t, look)
	require.NotEqual(t, unknown, known)
	known, look = get(9.35)
	require.False(t, look)
	require.Equal(t, unknown, known, "it counts for three times the pause")
	_, look = get(10.3)
	require.True(t, look)
}

func TestHoweverSlowLooksAreTheNextComesSoonAndTheFrontCountsUntilItsEnd(t *testing.T) {
	start := time.Now()
	for _, took := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Second, 4 * time.Second, 30 * time.Second, lookTimeout} {
		f := newFrontier()
		f.past, f.since = 7, start.Add(-time.Hour)
		f.looked(seen{now: 100_000, past: 7}, start, start.Add(took))
		next := start.Add(took + min(max(time.Second, 10*took), 30*time.Second))
		_, look := f.get(next.Add(-time.Nanosecond))
		require.False(t, look, took)
		_, look = f.get(next)
		require.True(t, look, took)
		known, _ := f.get(next.Add(took - time.Nanosecond))
		require.NotEqual(t, unknown, known, took)
		known, _ = f.get(start.Add(3 * time.Minute))
		require.Equal(t, unknown, known, took)
	}
}
