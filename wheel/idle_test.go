package wheel

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each call looks at timers from everywhere, and a round at all of them.
func TestEachPartOfARoundIsASample(t *testing.T) {
	const timers = 300*chunkSize + 7
	r := newRig(t, 10*ms, nil)
	id := map[*TimerOf[int]]int{}
	for i := range timers {
		timer, err := r.wheel.Add(i, time.Hour)
		require.NoError(t, err)
		id[timer] = i
	}
	seen := map[*TimerOf[int]]bool{}
	for from := uint32(0); ; {
		idle, looked, next := r.wheel.IdleSince(math.MaxInt64, from)
		require.Len(t, idle, looked)
		require.LessOrEqual(t, looked, breath*chunkSize)
		parts := map[int]bool{}
		for _, timer := range idle {
			require.False(t, seen[timer])
			seen[timer] = true
			parts[id[timer]*4/timers] = true
		}
		if from = next; from == 0 {
			break
		}
		require.Len(t, parts, 4, "a quarter of the timers each")
	}
	require.Len(t, seen, timers)
}

func TestIdleSinceTellsTheTickOfATouch(t *testing.T) {
	r := newRig(t, 10*ms, nil)
	r.advance(25 * ms)
	r.add(time.Hour)
	since := func(at time.Duration) int {
		idle, looked, next := r.wheel.IdleSince(at, 0)
		require.Equal(t, 1, looked)
		require.Zero(t, next)
		return len(idle)
	}
	for _, at := range []time.Duration{math.MinInt64, -1, 0, 20*ms - 1} {
		require.Zero(t, since(at), "%v", at)
	}
	for _, at := range []time.Duration{20 * ms, 25 * ms, math.MaxInt64} {
		require.Equal(t, 1, since(at), "%v", at)
	}
}

// Otherwise a search beside many due timers would look at all of them, and often.
func TestIdleSinceCountsADueTimerAndLeavesItOut(t *testing.T) {
	w, _ := newSleepingWheel(t)
	timer, err := w.Add(1, time.Hour)
	require.NoError(t, err)
	require.True(t, timer.HandOver())
	idle, looked, next := w.IdleSince(math.MaxInt64, 0)
	require.Empty(t, idle)
	require.Equal(t, 1, looked)
	require.Zero(t, next)
}

// The chunks of a crowd that has gone are passed over, and not all under one hold of the lock.
func TestARoundPassesOverWhatACrowdHasLeft(t *testing.T) {
	r := newRig(t, 10*ms, nil)
	slots := &r.wheel.levels.slots
	var crowd []*chunk[int]
	for range 2 * stride {
		crowd = append(crowd, slots.get())
	}
	for _, c := range crowd {
		slots.giveBack(c)
	}
	r.add(time.Hour)
	looked, calls := 0, 0
	for from := uint32(0); calls == 0 || from > 0; calls++ {
		var n int
		_, n, from = r.wheel.IdleSince(math.MaxInt64, from)
		looked += n
	}
	require.Equal(t, 1, looked)
	require.Equal(t, 4, calls, "half of the numbers below 16384 are chunks")
}
