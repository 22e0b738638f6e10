package wheel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBacklogIsFirstInFirstOutWithoutThoseThatLeft(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	b := backlog[int]{first: 1<<32 - 500} // the numbers begin anew
	var want []*TimerOf[int]
	for step := range 20_000 {
		switch r := rnd.IntN(10); {
		case r < 4+step/5000%2:
			timer := new(TimerOf[int])
			b.add(timer)
			want = append(want, timer)
		case r < 6:
			if got := b.pop(); len(want) == 0 {
				require.Nil(t, got)
			} else {
				require.Same(t, want[0], got)
				require.False(t, b.has(got))
				want = want[1:]
			}
		case len(want) > 0:
			i := rnd.IntN(len(want))
			require.True(t, b.has(want[i]))
			b.remove(want[i])
			require.False(t, b.has(want[i]))
			want = slices.Delete(want, i, i+1)
		}
		require.Equal(t, len(want), b.len())
		require.LessOrEqual(t, len(b.timers), 2*len(want)+129, "gaps must not pile up")
		if len(want) == 0 {
			require.Nil(t, b.timers, "gives the memory of a crowd back")
		}
		if step%100 == 0 {
			require.True(t, slices.Equal(want, b.all(nil)))
		}
	}
}

// The gaps are closed once there are more than 64 and they are in the majority: a removal costs
// nothing before. What has left is kept alive by nobody.
func TestBacklogClosesItsGapsInTime(t *testing.T) {
	for _, c := range []struct{ timers, gaps int }{{100, 65}, {129, 65}, {130, 66}, {10_000, 5001}} {
		var b backlog[int]
		for range c.timers {
			b.add(new(TimerOf[int]))
		}
		all := b.timers
		for i := range c.gaps {
			require.Len(t, b.timers, c.timers, "%d gaps", i)
			b.remove(all[i])
		}
		require.Len(t, b.timers, c.timers-c.gaps)
		left := len(b.timers)
		for b.pop() != nil {
			left--
		}
		require.Zero(t, left)
		require.Equal(t, make([]*TimerOf[int], c.timers), all)
	}
}

func TestUndecidedLetGoOfTheDecided(t *testing.T) {
	var u undecided[int]
	for range 100 {
		u.add(new(TimerOf[int]))
	}
	all := u
	for len(u) > 0 {
		u.remove(u[len(u)/2])
	}
	require.Nil(t, u, "gives the memory of a crowd back")
	require.Equal(t, make(undecided[int], 100), all)
}
