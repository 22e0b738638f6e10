package wheel

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func TestLagLog(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var l lagLog
	lags := map[uint64]time.Duration{}
	f, ticks := failer{t}, 300_000
	if testmain.Race {
		ticks /= 3
	}
	for range ticks {
		tick := l.last + 1
		lag := time.Duration(rnd.IntN(1000))
		if rnd.IntN(1000) == 0 {
			tick += uint64(rnd.IntN(2000))
			lag += time.Duration(tick-l.last) * 1000
		}
		lags[l.last] = lag
		l.left(tick, lag)

		// Recent ticks are exact.
		first := l.last - min(l.last, uint64(rnd.IntN(lagRing)))
		require.Equal(f, lags[first], l.of(first))
		// Old ones are at least their true value, and at most the worst of their block.
		age := uint64(rnd.IntN(200_000))
		old := l.last - min(l.last, age)
		got := l.of(old)
		require.GreaterOrEqual(f, got, lags[old])
		if rnd.IntN(100) == 0 {
			worst, block := time.Duration(0), uint64(1)
			for (l.last/block - old/block) >= lagRing {
				block <<= lagShift
			}
			for tick := old / block * block; tick < old/block*block+block; tick++ {
				worst = max(worst, lags[tick])
			}
			require.Equal(t, worst, got)
		}
	}
}

func TestLagLogForgetsNothingAcrossJumps(t *testing.T) {
	var l lagLog
	l.left(10, 3*ms)
	l.left(1<<32, 5*ms) // from tick 10, in one step
	require.Equal(t, 5*ms, l.of(10))
	require.Equal(t, 5*ms, l.of(0), "as old as that, it is the largest of all")
	require.Zero(t, l.of(1<<32-5))
	require.Zero(t, l.of(1<<32))
	l.left(1<<62, 0) // takes no longer
	require.Equal(t, 5*ms, l.of(1<<32-5))
}
