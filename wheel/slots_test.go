package wheel

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// On 32 bits, the pointers in it take half: 59 entries and 3 links.
func TestChunkHas512Bytes(t *testing.T) {
	const pointers = (chunkSize + 3) * unsafe.Sizeof(uintptr(0))
	require.Equal(t, pointers+16, unsafe.Sizeof(chunk[int]{}))
	if unsafe.Sizeof(uintptr(0)) == 8 {
		require.EqualValues(t, 512, unsafe.Sizeof(chunk[int]{}))
	}
}

// Random timers are put in and taken out. The filed of each must always be its place.
func TestSlotsAgainstASet(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	var s slots[int]
	to := make([]slot[int], 3)
	in := make([][]*TimerOf[int], len(to))
	for step := range 30_000 {
		i := rnd.IntN(len(to))
		grow := step/5000%2 == 0
		if n := len(in[i]); n > 0 && rnd.IntN(10) < 3 == grow {
			k := rnd.IntN(n)
			s.remove(in[i][k], 0)
			in[i][k] = in[i][n-1]
			in[i] = in[i][:n-1]
		} else {
			timer := new(TimerOf[int])
			s.put(&to[i], uint64(i+1), timer)
			in[i] = append(in[i], timer)
			require.EqualValues(t, i+1, s.chunkOf(timer).visit)
		}
		if step%100 == 0 {
			for i := range to {
				require.ElementsMatch(t, in[i], to[i].first.timers(nil))
			}
		}
	}
}

func TestRemovingFromATakenSlotLeavesAGap(t *testing.T) {
	var s slots[int]
	var to slot[int]
	timers := make([]*TimerOf[int], 2*chunkSize)
	for i := range timers {
		timers[i] = new(TimerOf[int])
		s.put(&to, 7, timers[i])
	}
	taken := to.empty()
	s.remove(timers[3], 7)
	s.remove(timers[2*chunkSize-1], 7)
	all := taken.timers(nil)
	require.Same(t, timers[0], all[0], "first in, first out")
	require.Len(t, all, 2*chunkSize-2)
	require.NotContains(t, all, timers[3])
}

func TestRemovingFromASharedSlotLeavesAGap(t *testing.T) {
	var s slots[int]
	var to slot[int]
	timers := make([]*TimerOf[int], 3*chunkSize)
	for i := range timers {
		timers[i] = new(TimerOf[int])
		s.put(&to, 100, timers[i])
	}
	taken := to.share(2, 7, nil)
	s.remove(timers[3], 7)
	require.Len(t, taken.timers(nil), 2*chunkSize-1)
	require.NotContains(t, taken.timers(nil), timers[3])
	require.Equal(t, timers[2*chunkSize:], to.first.timers(nil), "the rest of the slot is as before")
	require.Equal(t, chunkSize, to.len)
}

func TestACrowdThatHasGoneDoesNotKeepItsMemory(t *testing.T) {
	var s slots[int]
	var to slot[int]
	timers := make([]*TimerOf[int], 1000*chunkSize)
	for range 3 {
		for i := range timers {
			timers[i] = new(TimerOf[int])
			s.put(&to, 1, timers[i])
		}
		for _, timer := range timers {
			s.remove(timer, 0)
		}
		require.Nil(t, to.first)
		require.LessOrEqual(t, s.spares, 1000/4)
		require.LessOrEqual(t, len(s.chunks), 1000+minSpare, "ids are used again")
		inUse := 0
		for _, c := range s.chunks {
			if c != nil {
				inUse++
			}
		}
		require.Equal(t, s.spares, inUse)
	}
}

// Without removals, the first in is the first out. If one leaves, the last takes its place, and nobody's turn is later for it.
func TestQueueGivesTheFirstAndLetsTheLastTakeAGap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	var s slots[int]
	var q queue[int]
	var want []*TimerOf[int]
	for step := range 20_000 {
		switch r := rnd.IntN(10); {
		case r < 4+step/5000%2:
			timer := new(TimerOf[int])
			s.put(&q.slot, never, timer)
			want = append(want, timer)
		case r < 6 && len(want) > 0:
			require.Same(t, want[0], s.pop(&q))
			want = want[1:]
		case len(want) > 0:
			i := rnd.IntN(len(want))
			require.Same(t, &q.slot, s.chunkOf(want[i]).slot)
			s.remove(want[i], rnd.Uint64())
			want[i] = want[len(want)-1]
			want = want[:len(want)-1]
		}
		require.Equal(t, len(want), q.len)
		require.LessOrEqual(t, len(s.chunks)-len(s.free)-s.spares, 2+len(want)/chunkSize, "no gaps, and no chunk of a crowd")
		if step%100 == 0 {
			require.True(t, slices.Equal(want, q.first.timers(nil)))
			kept := 0
			for _, c := range s.chunks {
				for i := 0; c != nil && i < chunkSize; i++ {
					if c.entry[i] != nil {
						kept++
					}
				}
			}
			require.Equal(t, len(want), kept, "must not keep others alive")
		}
	}
}
