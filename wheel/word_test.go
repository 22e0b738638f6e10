package wheel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPackIsExactForShortNumbersAndBoundsLongOnes(t *testing.T) {
	for _, mantissa := range []int{spanMantissa, spanFloat} {
		numbers := []uint64{0, 1, 2, 1<<mantissa - 1, 1 << mantissa, 1<<mantissa + 1, 1 << 43}
		for range 10000 {
			numbers = append(numbers, rand.Uint64()>>(20+rand.IntN(44)))
		}
		for _, n := range numbers {
			p := pack(n, mantissa)
			least, most := unpack(p, mantissa)
			require.LessOrEqual(t, least, n)
			require.GreaterOrEqual(t, most, n)
			require.LessOrEqual(t, most-least, n>>(mantissa-1))
			if n < 1<<mantissa {
				require.Equal(t, n, p)
				require.Equal(t, n, most)
			}
			require.Equal(t, p, pack(most, mantissa), "rounding up twice must not add up")
		}
	}
	require.Less(t, pack(math.MaxInt64/uint64(minTick), spanMantissa), uint64(1)<<spanBits)
	require.LessOrEqual(t, pack(math.MaxInt64/uint64(minTick), spanFloat), uint64(math.MaxUint32))
}

func TestPendingAt(t *testing.T) {
	for _, c := range []struct {
		now, n, due, first, last uint64
	}{
		{now: 0, n: 0, due: 1, first: 0, last: 0},
		{now: 0, n: 1, due: 2, first: 0, last: 0},
		{now: 41, n: 300, due: 342, first: 41, last: 41},
		{now: 1000, n: exactSpan - 1, due: 1000 + exactSpan, first: 1000, last: 1000},
		{now: 1000, n: exactSpan, due: 1001 + exactSpan, first: 999, last: 1000},
		{now: 1000, n: exactSpan + 1, due: 1002 + exactSpan, first: 1000, last: 1001},
		{now: 0, n: 1 << 30, due: 1<<30 + 1, first: 0, last: 0},
	} {
		t.Run(fmt.Sprintf("now=%d/n=%d", c.now, c.n), func(t *testing.T) {
			w := pendingAt(c.now, c.n)
			require.EqualValues(t, pending, w&stateMask)
			require.Equal(t, c.due, dueOf(w))
			first, last := touchedBetween(w)
			require.Equal(t, c.first, first)
			require.Equal(t, c.last, last)
		})
	}
}

func TestPendingAtTheEndOfTime(t *testing.T) {
	for _, w := range []word{pendingAt(5, 1<<43), pendingAt(maxDue, 0), pendingAt(maxDue-1, 1<<20)} {
		require.Equal(t, uint64(maxDue), dueOf(w))
		require.EqualValues(t, pending, w&stateMask)
	}
}
