package shrink

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// isRemade reports whether a call has begun or ended a move.
func isRemade(m *Map[int, int], call func()) bool {
	before := m.old != nil
	call()
	return before != (m.old != nil)
}

func TestMemoryComesBackAfterACrowd(t *testing.T) {
	const crowd = 30_000
	var m Map[int, int]
	before := heap()
	for key := range crowd {
		m.Set(key, -key)
	}
	full := heap() - before
	require.Greater(t, full, 16*crowd)
	changes := 0
	for key := 10; key < crowd; key++ {
		if isRemade(&m, func() { m.Delete(key) }) {
			changes++
		}
	}
	require.Less(t, heap()-before, full/100)
	require.LessOrEqual(t, changes, 2*6, "each map has a quarter of the keys of the one before")
	require.Nil(t, m.old)
	require.Equal(t, 10, m.Len())
	for key := range 10 {
		require.Equal(t, -key, m.Get(key))
	}
}

// The crowd leaves, and then others come: the old map goes all the same.
func TestMovesEndWithoutDeletes(t *testing.T) {
	var m Map[int, int]
	for key := range 1000 {
		m.Set(key, key)
	}
	for key := 0; m.old == nil; key++ {
		m.Delete(key)
	}
	left := m.Len()
	calls := 0
	for ; m.old != nil; calls++ {
		m.Set(-1, -1)
	}
	require.LessOrEqual(t, calls, left/batch+1)
	require.Equal(t, left+1, m.Len())
}

// A model test, with crowds that come and go.
func TestAMapIsLikeAGoMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var m Map[int, int]
	model := map[int]int{}
	changes := 0
	for step := range 40_000 {
		key := rnd.IntN(1000)
		changed := isRemade(&m, func() {
			if step/5_000%2 == 0 || rnd.IntN(10) == 0 {
				m.Set(key, step)
				model[key] = step
			} else {
				m.Delete(key)
				delete(model, key)
			}
		})
		if changed {
			changes++
		}
		require.Equal(t, len(model), m.Len())
		other := rnd.IntN(1000)
		require.Equal(t, model[other], m.Get(other))
		if changed || step%1000 == 0 {
			require.Equal(t, model, maps.Collect(m.All()))
		}
		require.False(t, m.old != nil && len(m.old) == 0)
	}
	require.Positive(t, changes)
}

func TestTheZeroMapIsEmpty(t *testing.T) {
	var m Map[string, *int]
	m.Delete("a")
	require.Nil(t, m.Get("a"))
	require.Zero(t, m.Len())
	require.Empty(t, maps.Collect(m.All()))
	for range m.All() {
		t.Error("not empty")
	}
}

func TestAnIterationCanEnd(t *testing.T) {
	var m Map[int, int]
	for key := range 1000 {
		m.Set(key, key)
	}
	for key := 0; m.old == nil; key++ {
		m.Delete(key)
	}
	for n := 0; n < m.Len(); n++ {
		seen := 0
		for range m.All() {
			if seen++; seen > n {
				break
			}
		}
		require.Equal(t, n+1, seen)
	}
}

// BenchmarkCrowd is a crowd that comes and leaves. longest is the longest call.
func BenchmarkCrowd(b *testing.B) {
	for _, crowd := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", crowd), func(b *testing.B) {
			var longest time.Duration
			for b.Loop() {
				var m Map[int, int]
				for key := range crowd {
					m.Set(key, key)
				}
				for key := range crowd {
					begun := time.Now()
					m.Delete(key)
					longest = max(longest, time.Since(begun))
				}
			}
			b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*crowd), "ns/key")
		})
	}
}
