package keepalive

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAKeyHasAtMostItsShares(t *testing.T) {
	var s shares
	a, ok := s.taken("a", 2)
	require.True(t, ok)
	again, ok := s.taken("a", 2)
	require.True(t, ok)
	require.Same(t, a, again, "all members of a key share one count")
	none, ok := s.taken("a", 2)
	require.False(t, ok)
	require.Nil(t, none)
	b, ok := s.taken("b", 2)
	require.True(t, ok, "another key has its own")
	require.Equal(t, 2, s.keys())

	s.leave(a)
	require.Equal(t, 2, s.keys(), "one member is left")
	_, ok = s.taken("a", 2)
	require.True(t, ok, "what was given back can be taken")
	_, ok = s.taken("a", 3)
	require.True(t, ok, "the limit may be another one")
	_, ok = s.taken("a", 1)
	require.False(t, ok)

	s.leave(b)
	require.Equal(t, 1, s.keys(), "a key is forgotten with its last member")
	for range 3 {
		s.leave(a)
	}
	require.Zero(t, s.keys())
}

func TestAMostThatIsNotPositiveGivesNobodyAShare(t *testing.T) {
	for _, most := range []int{0, -1} {
		var s shares
		share, ok := s.taken("a", most)
		require.False(t, ok)
		require.Nil(t, share)
		require.Zero(t, s.keys(), "and leaves no key behind")
	}
}

func TestTheEmptyKeyHasNoLimit(t *testing.T) {
	var s shares
	for range 3 {
		share, ok := s.taken("", 1)
		require.True(t, ok)
		require.Nil(t, share)
		s.leave(share)
	}
	require.Zero(t, s.keys())
}

func TestAShareThatNobodyHasCannotBeGivenBack(t *testing.T) {
	const message = `keepalive: a share of key "a" was given back that nobody has`
	var s, other shares
	stale, _ := s.taken("a", 1)
	require.PanicsWithValue(t, message, func() { other.leave(stale) })
	s.leave(stale)
	require.PanicsWithValue(t, message, func() { s.leave(stale) })

	// Nor does a stale share take away a newcomer's.
	share, ok := s.taken("a", 1)
	require.True(t, ok, "the lock is free, and nothing went below zero")
	require.PanicsWithValue(t, message, func() { s.leave(stale) })
	_, ok = s.taken("a", 1)
	require.False(t, ok)
	s.leave(share)
	require.Zero(t, s.keys())
}

func TestSharesCountLikeAPlainMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var s shares
	counts := map[string]int{}
	var held []*member
	for step := range 200_000 {
		// Crowds come and go.
		arrives := 30
		if step/20_000%2 == 0 {
			arrives = 70
		}
		if rnd.IntN(100) < arrives {
			key, most := strconv.Itoa(rnd.IntN(3000)), 1+rnd.IntN(4)
			share, ok := s.taken(key, most)
			require.Equal(t, counts[key] < most, ok)
			if ok {
				require.Equal(t, key, share.address)
				counts[key]++
				held = append(held, share)
			}
		} else if n := len(held); n > 0 {
			i := rnd.IntN(n)
			share := held[i]
			held[i], held = held[n-1], held[:n-1]
			s.leave(share)
			if counts[share.address]--; counts[share.address] == 0 {
				delete(counts, share.address)
			}
		}
		require.Equal(t, len(counts), s.keys())
	}
	for _, share := range held {
		s.leave(share)
	}
	require.Zero(t, s.keys())
}

func TestSharesAreExactForManyAtOnce(t *testing.T) {
	const most = 3
	var s shares
	var taken [5]atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 5000 {
				k := (g + i) % len(taken)
				share, ok := s.taken(strconv.Itoa(k), most)
				if !ok {
					continue
				}
				if n := taken[k].Add(1); n > most {
					t.Errorf("%d shares of key %d", n, k)
				}
				if i%7 == 0 {
					runtime.Gosched()
				}
				taken[k].Add(-1)
				s.leave(share)
			}
		})
	}
	wg.Wait()
	require.Zero(t, s.keys())
}

func TestOnlyTheFirstMemberOfAKeyAllocates(t *testing.T) {
	var s shares
	first, _ := s.taken("a", 2)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		share, _ := s.taken("a", 2)
		s.leave(share)
	}))
	s.leave(first)
}

func TestMemoryComesBackAfterACrowd(t *testing.T) {
	const crowd = 200_000
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	var s shares
	held := make([]*member, crowd)
	before := heap()
	for i := range held {
		held[i], _ = s.taken(fmt.Sprintf("2001:db8:%x:%x::/64", i>>16, i&0xffff), 1)
	}
	full := heap() - before
	t.Logf("%d bytes for each key", full/crowd)
	require.Greater(t, full, crowd*40)

	for i, share := range held[10:] {
		s.leave(share)
		held[10+i] = nil
	}
	require.Less(t, heap()-before, full/100)
	require.Equal(t, 10, s.keys())
	for _, share := range held[:10] {
		_, ok := s.taken(share.address, 1)
		require.False(t, ok, "those that stayed are still counted")
		s.leave(share)
	}
	require.Zero(t, s.keys())
}

func BenchmarkShares(b *testing.B) {
	for _, members := range []int{0, 1} { // of the key, besides the measured one
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			var s shares
			for range members {
				s.taken("2001:db8:1:2::/64", 10)
			}
			b.ReportAllocs()
			for b.Loop() {
				share, _ := s.taken("2001:db8:1:2::/64", 10)
				s.leave(share)
			}
		})
	}
}
