package wheel

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Against a Go map, with hashes that collide, wrap around, and are all the same.
func TestShardFindsWhatIsInIt(t *testing.T) {
	for name, hash := range map[string]func(key int) uint64{
		"spread":        func(key int) uint64 { return uint64(key) * 0x9e3779b97f4a7c15 >> 3 },
		"close":         func(key int) uint64 { return uint64(key) / 4 },
		"at the end":    func(key int) uint64 { return ^uint64(0) - uint64(key%3) },
		"all the same":  func(int) uint64 { return 5 },
		"without a low": func(key int) uint64 { return uint64(key) << 32 },
	} {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, 2))
			var s shard[int, int]
			want := map[int]*entry[int, int]{}
			for step := range 6000 {
				most := 1 + step/30%200 // it grows and shrinks
				key := rnd.IntN(200)
				switch e := want[key]; {
				case rnd.IntN(4) == 0 || e == nil && len(want) < most:
					e = &entry[int, int]{key: key}
					s.put(e, hash(key))
					want[key] = e
				case e == nil || len(want) >= most || rnd.IntN(2) == 0:
					if e == nil {
						e = &entry[int, int]{key: key}
					}
					s.remove(&entry[int, int]{key: key}, hash(key)) // another of the same key
					s.remove(e, hash(key))
					delete(want, key)
				}
				require.Equal(t, len(want), s.len)
				if places := s.table.Load(); places == nil {
					require.Empty(t, want)
				} else {
					require.LessOrEqual(t, s.len, len(*places)/4*3)
					require.LessOrEqual(t, len(*places), max(smallestTable, 8*(s.len+1)))
				}
				for key := range 200 {
					if (step%64 == 0 || len(want) < 8) && s.find(key, hash(key)) != want[key] {
						t.Fatalf("key %d after %d steps", key, step)
					}
				}
			}
		})
	}
}

// A search beside changes may miss an entry, and never finds one of another key.
func TestASearchBesideChangesFindsNoOtherKey(t *testing.T) {
	const keys = 64
	hash := func(key int) uint64 { return uint64(key / 8) }
	var s shard[int, int]
	var wrong atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for key := 0; ; key = (key + 1) % keys {
				select {
				case <-stop:
					return
				default:
				}
				if e := s.find(key, hash(key)); e != nil && e.key != key {
					wrong.Add(1)
				}
			}
		})
	}
	all := map[int]*entry[int, int]{}
	for range 5000 {
		key := rand.IntN(keys)
		s.mu.Lock()
		if e := all[key]; e != nil {
			s.remove(e, hash(key))
			delete(all, key)
		} else {
			all[key] = &entry[int, int]{key: key}
			s.put(all[key], hash(key))
		}
		s.mu.Unlock()
	}
	close(stop)
	wg.Wait()
	require.Zero(t, wrong.Load())
	require.Equal(t, len(all), s.len)
}

// find returns the entry of a key, or nil. Without mu it may miss it.
func (s *shard[K, V]) find(key K, hash uint64) *entry[K, V] {
	_, e := s.table.Load().find(key, hash)
	return e
}
