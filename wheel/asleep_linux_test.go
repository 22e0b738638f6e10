package wheel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestClocksOfTheKernel(t *testing.T) {
	require.EqualValues(t, unix.CLOCK_MONOTONIC, monotonic)
	require.EqualValues(t, unix.CLOCK_BOOTTIME, boottime)
	for _, clock := range []int32{monotonic, boottime} {
		var before, after unix.Timespec
		require.NoError(t, unix.ClockGettime(clock, &before))
		now, ok := read(uintptr(clock))
		require.NoError(t, unix.ClockGettime(clock, &after))
		require.True(t, ok)
		require.GreaterOrEqual(t, int64(now), before.Nano())
		require.LessOrEqual(t, int64(now), after.Nano())
	}
}

// A machine seems awake if it is not suspended.
func TestAsleepIsSteady(t *testing.T) {
	p := pace{sleep: 100 * ms, stall: time.Second}
	for range 10 { // a process stopped within a reading gets too small a result
		p.asleep = max(p.asleep, asleep())
	}
	before := p.asleep
	for start := time.Now(); time.Since(start) < 50*ms; {
		p.look(0, asleep())
	}
	require.Zero(t, p.stalls)
	require.Less(t, p.asleep-before, 50*ms)
}

func BenchmarkAsleep(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		asleep()
	}
}
