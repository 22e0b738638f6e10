package wheel

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTicksIsTheCeilingOfTheQuotient(t *testing.T) {
	ceil := func(d, tick time.Duration) uint64 {
		if d <= 0 {
			return 0
		}
		n := uint64(d / tick)
		if d%tick > 0 {
			n++
		}
		return n
	}
	for _, tick := range []time.Duration{minTick, minTick + 1, 3333333, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, time.Hour, math.MaxInt64} {
		var c clock
		c.setTick(tick)
		delays := []time.Duration{math.MinInt64, -1, 0, 1, 2, tick - 1, tick, math.MaxInt64 - 1, math.MaxInt64}
		for i := range 2000 {
			d := time.Duration(rand.Uint64() >> (1 + i%63))
			whole := d - d%tick
			delays = append(delays, d, whole, whole-1, whole+1)
		}
		for _, d := range delays {
			require.Equal(t, ceil(d, tick), c.ticks(d), "ticks(%d) at %d", d, tick)
		}
	}
}

func TestSpanSaturates(t *testing.T) {
	var c clock
	c.setTick(time.Millisecond)
	require.Equal(t, 5*time.Millisecond, c.span(5))
	require.Equal(t, time.Duration(math.MaxInt64), c.span(math.MaxUint64))
	require.Equal(t, time.Duration(math.MaxInt64), c.span(1<<63/uint64(time.Millisecond)+1))
}
