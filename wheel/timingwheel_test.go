package wheel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// record has the executions of a keyed wheel, each with its time.
type record[K comparable, V any] struct {
	mu    sync.Mutex
	start time.Time
	fired []fire[K, V]
}

type fire[K comparable, V any] struct {
	key   K
	value V
	after time.Duration
}

func (r *record[K, V]) execute(key K, value V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fired = append(r.fired, fire[K, V]{key, value, time.Since(r.start)})
}

func (r *record[K, V]) fires() []fire[K, V] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.fired)
}

// elapsed is the time since the start or the last restart.
func (r *record[K, V]) elapsed() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.start)
}

func (r *record[K, V]) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fired, r.start = nil, time.Now()
}

const tick = 10 * time.Millisecond

func newKeyed[K comparable, V any](t testing.TB, slots int, opts ...func(*Config)) (*TimingWheel[K, V], *record[K, V]) {
	r := &record[K, V]{start: time.Now()}
	tw, err := NewTimingWheel(tick, slots, r.execute, opts...)
	require.NoError(t, err)
	t.Cleanup(tw.Stop)
	return tw, r
}

// kept returns how many keys a wheel has in memory.
func kept[K comparable, V any](tw *TimingWheel[K, V]) (n int) {
	for i := range tw.shards {
		s := &tw.shards[i]
		s.mu.Lock()
		n += s.len
		s.mu.Unlock()
	}
	return n
}

// entryOf returns the entry of a key, or nil.
func entryOf[K comparable, V any](tw *TimingWheel[K, V], key K) *entry[K, V] {
	s, hash := tw.shard(key)
	return s.find(key, hash)
}

// requireFired waits for a while, and requires just one fired timer, at its time.
func requireFired[K comparable, V any](t *testing.T, r *record[K, V], want fire[K, V]) {
	t.Helper()
	time.Sleep(want.after - r.elapsed() + 50*tick)
	synctest.Wait()
	fires := r.fires()
	require.Len(t, fires, 1)
	got := fires[0]
	require.Equal(t, want.key, got.key)
	require.Equal(t, want.value, got.value)
	require.GreaterOrEqual(t, got.after, want.after)
	require.LessOrEqual(t, got.after, want.after+2*tick)
}

func TestKeyedSet(t *testing.T) {
	for _, slots := range []int{1, 2, 5, 8} {
		for ticks := 1; ticks <= 18; ticks++ {
			for _, elapsed := range []int{0, 1, 5, 11} {
				synctest.Test(t, func(t *testing.T) {
					tw, r := newKeyed[string, int](t, slots)
					time.Sleep(time.Duration(elapsed) * tick)
					require.NoError(t, tw.SetTimer("any", 3, time.Duration(ticks)*tick))
					require.Equal(t, 1, tw.Len())
					requireFired(t, r, fire[string, int]{"any", 3, time.Duration(elapsed+ticks) * tick})
					require.Zero(t, tw.Len())
					require.Zero(t, kept(tw))
				})
			}
		}
	}
}

// Every way to set, wait and move, earlier and later, within and beyond a
// revolution: nothing fires early or late.
func TestKeyedSetThenMove(t *testing.T) {
	for _, slots := range []int{1, 2, 3, 5, 8} {
		t.Run(fmt.Sprintf("slots=%d", slots), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type key struct{ set, wait, move, phase int }
				tw, r := newKeyed[key, bool](t, slots)
				want := map[key]time.Duration{}
				for phase := range min(slots, 3) {
					for set := 1; set <= 3*slots; set++ {
						for wait := 0; wait < set; wait++ {
							for move := 1; move <= 3*slots; move++ {
								k := key{set, wait, move, phase}
								require.NoError(t, tw.SetTimer(k, true, time.Duration(set)*tick))
								time.AfterFunc(time.Duration(wait)*tick+1, func() {
									require.NoError(t, tw.MoveTimer(k, time.Duration(move)*tick))
								})
								want[k] = r.elapsed() + time.Duration(wait+move)*tick
							}
						}
					}
					time.Sleep(tick)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Len(t, r.fires(), len(want))
				for _, f := range r.fires() {
					require.GreaterOrEqual(failer{t}, f.after, want[f.key], "%+v is early", f.key)
					require.LessOrEqual(failer{t}, f.after, want[f.key]+2*tick+1, "%+v is late", f.key)
				}
			})
		})
	}
}

func TestKeyedHeartbeatWithATimeoutBeyondARevolution(t *testing.T) {
	for phase := range 10 {
		synctest.Test(t, func(t *testing.T) {
			tw, r := newKeyed[string, int](t, 10)
			time.Sleep(time.Duration(phase) * tick)
			require.NoError(t, tw.SetTimer("conn", 1, 12*tick))
			for range 100 {
				time.Sleep(tick)
				require.NoError(t, tw.MoveTimer("conn", 12*tick))
			}
			for range 10 {
				time.Sleep(11 * tick)
				require.NoError(t, tw.MoveTimer("conn", 12*tick))
			}
			synctest.Wait()
			require.Empty(t, r.fires())
			requireFired(t, r, fire[string, int]{"conn", 1, r.elapsed() + 12*tick})
		})
	}
}

func TestKeyedSetTwiceKeepsTheLastValueAndFiresOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tw, r := newKeyed[string, int](t, 10)
		require.NoError(t, tw.SetTimer("any", 3, 7*tick))
		require.NoError(t, tw.SetTimer("any", 5, 4*tick))
		require.Equal(t, 1, tw.Len())
		requireFired(t, r, fire[string, int]{"any", 5, 4 * tick})
		require.NoError(t, tw.SetTimer("any", 6, 5*tick), "an expired key can be set again")
		require.NoError(t, tw.SetTimer("any", 7, 9*tick))
		r.restart()
		requireFired(t, r, fire[string, int]{"any", 7, 9 * tick})
	})
}

func TestKeyedDelayBelowTheIntervalFiresOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tw, r := newKeyed[string, int](t, 10)
		require.NoError(t, tw.SetTimer("any", 3, tick/2))
		requireFired(t, r, fire[string, int]{"any", 3, tick / 2})

		require.NoError(t, tw.SetTimer("any", 4, time.Minute))
		time.Sleep(3 * tick)
		require.NoError(t, tw.MoveTimer("any", tick/2))
		r.restart()
		requireFired(t, r, fire[string, int]{"any", 4, tick / 2})
	})
}

func TestKeyedRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tw, r := newKeyed[string, int](t, 10)
		require.NoError(t, tw.SetTimer("any", 3, 8*tick))
		time.Sleep(6 * tick)
		require.NoError(t, tw.MoveTimer("any", 7*tick))
		time.Sleep(3 * tick)
		require.NoError(t, tw.RemoveTimer("any"))
		require.ErrorIs(t, tw.RemoveTimer("any"), ErrNotFound)
		require.ErrorIs(t, tw.MoveTimer("any", tick), ErrNotFound)
		require.Zero(t, tw.Len())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, r.fires())
		require.NoError(t, tw.SetTimer("any", 4, tick), "a removed key can be set again")
		r.restart()
		requireFired(t, r, fire[string, int]{"any", 4, tick})
		require.ErrorIs(t, tw.RemoveTimer("any"), ErrNotFound)
	})
}

func TestKeyedDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tw, r := newKeyed[string, int](t, 10)
		for i, key := range []string{"first", "second", "third"} {
			require.NoError(t, tw.SetTimer(key, i, time.Duration(3*i+5)*tick))
		}
		drained := map[string]int{}
		require.NoError(t, tw.Drain(func(key string, value int) {
			require.NotContains(t, drained, key)
			drained[key] = value
			require.ErrorIs(t, tw.RemoveTimer(key), ErrNotFound, "it may call back in")
		}))
		require.Equal(t, map[string]int{"first": 0, "second": 1, "third": 2}, drained)
		require.Zero(t, tw.Len())
		require.Zero(t, kept(tw))
		require.ErrorIs(t, tw.MoveTimer("first", 3*tick), ErrNotFound, "a drained key stays drained")
		require.NoError(t, tw.Drain(func(string, int) { t.Error("drained twice") }))

		require.NoError(t, tw.SetTimer("second", 7, 9*tick))
		r.restart()
		requireFired(t, r, fire[string, int]{"second", 7, 9 * tick})
	})
}

func TestKeyedDrainTakesWhatWaitsForAWorkerToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		var executed []string
		tw, err := NewTimingWheel(tick, 10, func(key string, _ int) {
			executed = append(executed, key)
			<-release
		}, func(cfg *Config) { cfg.Workers = 1 })
		require.NoError(t, err)
		defer tw.Stop()
		require.NoError(t, tw.SetTimer("a", 1, tick))
		time.Sleep(3 * tick)
		require.NoError(t, tw.SetTimer("b", 2, tick))
		require.NoError(t, tw.SetTimer("c", 3, tick))
		time.Sleep(3 * tick)
		require.NoError(t, tw.MoveTimer("c", time.Minute), "late, but not too late")
		var drained []string
		require.NoError(t, tw.Drain(func(key string, _ int) { drained = append(drained, key) }))
		slices.Sort(drained)
		require.Equal(t, []string{"b", "c"}, drained)
		close(release)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"a"}, executed)
	})
}

func TestKeyedArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			interval time.Duration
			slots    int
			execute  func(string, int)
			opts     []func(*Config)
			want     string
		}{
			{0, 10, func(string, int) {}, nil, "wheel: invalid argument: interval 0s, must be at least 1ms"},
			{-5, 10, func(string, int) {}, nil, "wheel: invalid argument: interval -5ns, must be at least 1ms"},
			{tick, 0, func(string, int) {}, nil, "wheel: invalid argument: level 0 has 0 slots, must have at least 1"},
			{tick, -1, func(string, int) {}, nil, "wheel: invalid argument: level 0 has -1 slots, must have at least 1"},
			{tick, 10, nil, nil, "wheel: invalid argument: execute is nil"},
			{tick, 10, func(string, int) {}, []func(*Config){func(cfg *Config) { cfg.Levels = append(cfg.Levels, 60, 0) }}, "wheel: invalid argument: level 2 has 0 slots, must have at least 1"},
			{tick, 10, func(string, int) {}, []func(*Config){func(cfg *Config) { cfg.Workers = -2 }}, "wheel: invalid argument: Workers -2, must not be negative"},
		} {
			_, err := NewTimingWheel(c.interval, c.slots, c.execute, c.opts...)
			require.ErrorIs(t, err, ErrArgument)
			require.EqualError(t, err, c.want)
		}

		tw, r := newKeyed[any, int](t, 10)
		for _, d := range []time.Duration{0, -1, math.MinInt64} {
			require.ErrorIs(t, tw.SetTimer("k", 1, d), ErrArgument)
			require.ErrorIs(t, tw.MoveTimer("k", d), ErrArgument)
		}
		require.NoError(t, tw.SetTimer("k", 1, 1))
		require.NoError(t, tw.MoveTimer("k", 1))
		require.NoError(t, tw.RemoveTimer("k"))
		for _, key := range []any{nil, math.NaN()} {
			require.ErrorIs(t, tw.SetTimer(key, 1, tick), ErrArgument)
			require.ErrorIs(t, tw.MoveTimer(key, tick), ErrArgument)
			require.ErrorIs(t, tw.RemoveTimer(key), ErrArgument)
		}
		require.ErrorIs(t, tw.Drain(nil), ErrArgument)
		require.Panics(t, func() { _ = tw.SetTimer([]int{1}, 1, tick) }, "as with a map, in the caller's goroutine")
		require.Zero(t, tw.Len())
		require.NoError(t, tw.SetTimer("k", 1, tick), "and the wheel still works")
		requireFired(t, r, fire[any, int]{"k", 1, tick})
	})
}

func TestKeyedAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tw, r := newKeyed[string, int](t, 10)
		require.NoError(t, tw.SetTimer("any", 1, tick))
		tw.Stop()
		tw.Stop()
		require.Equal(t, ErrClosed, tw.SetTimer("any", 1, tick))
		require.Equal(t, ErrClosed, tw.SetTimer("any", 1, -tick))
		require.Equal(t, ErrClosed, tw.MoveTimer("any", tick))
		require.Equal(t, ErrClosed, tw.RemoveTimer("any"))
		require.Equal(t, ErrClosed, tw.Drain(func(string, int) { t.Error("drained") }))
		require.Zero(t, tw.Len())
		require.Zero(t, kept(tw))
		require.Equal(t, ErrClosed, tw.notFound(), "stopped while the key was looked up")
		time.Sleep(time.Minute)
		require.Empty(t, r.fires())
	})
}

func TestKeyedSetDuringStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tw, _ := newKeyed[string, int](t, 10)
		tw.engine.closed.Store(true)
		defer tw.engine.closed.Store(false) // or Stop would not stop the hand
		require.Equal(t, ErrClosed, tw.SetTimer("any", 1, tick))
		s, hash := tw.shard("any") // it was stopped after SetTimer had looked
		require.Equal(t, ErrClosed, tw.start(s, hash, "any", 1, tick))
		require.Zero(t, kept(tw))
	})
}

// A worker has the timer when somebody saves its key.
func TestKeySavedAtTheLastMomentIsNotExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tw, r := newKeyed[string, int](t, 10)
		require.NoError(t, tw.SetTimer("any", 1, 10*tick))
		e := entryOf(tw, "any")
		tw.due(&e.timer, e)
		require.Empty(t, r.fires())
		requireFired(t, r, fire[string, int]{"any", 1, 10 * tick})
	})
}

// With the same delay, MoveTimer takes no lock but the key's own.
func TestKeyedHeartbeatsDoNotMeet(t *testing.T) {
	tw, _ := newKeyed[string, int](t, 10)
	require.NoError(t, tw.SetTimer("any", 1, time.Hour))
	done := make(chan error, 1)
	func() {
		tw.engine.mu.Lock()
		defer tw.engine.mu.Unlock()
		s, _ := tw.shard("any")
		s.mu.Lock()
		defer s.mu.Unlock()
		go func() { done <- tw.MoveTimer("any", time.Hour) }()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(10 * time.Second):
			t.Error("MoveTimer waits for a lock")
		}
	}()
}

// An ended timer is forgotten a moment later. If its key has been set again meanwhile, the
// new timer stays.
func TestForgetKeepsTheNewTimerOfAKey(t *testing.T) {
	tw, err := NewTimingWheel(10*ms, 10, func(string, int) {})
	require.NoError(t, err)
	defer tw.Stop()
	require.NoError(t, tw.SetTimer("k", 1, time.Hour))
	old := entryOf(tw, "k")
	old.timer.Remove()
	require.NoError(t, tw.SetTimer("k", 2, time.Hour))
	tw.forget(old)
	require.NoError(t, tw.MoveTimer("k", time.Hour))
	require.False(t, old.timer.Move(time.Hour))
}

func TestKeyedOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panics, stalls atomic.Int32
		tw, err := NewTimingWheel(time.Minute, 60, func(int, int) { panic("x") },
			func(cfg *Config) { cfg.Levels = append(cfg.Levels, 24, 7) },
			func(cfg *Config) { cfg.Stall = -1 },
			func(cfg *Config) { cfg.OnStall = func(time.Duration) { stalls.Add(1) } },
			func(cfg *Config) { cfg.OnPanic = func(any, []byte) { panics.Add(1) } })
		require.NoError(t, err)
		defer tw.Stop()
		require.Len(t, tw.engine.levels.slot, 177)
		const day = 24 * time.Hour
		require.NoError(t, tw.SetTimer(1, 1, 6*day))
		require.NoError(t, tw.SetTimer(2, 2, 8*day)) // beyond the top
		for i, want := range []int32{0, 1, 1, 2} {
			time.Sleep([]time.Duration{6*day - 1, 3 * time.Minute, 2*day - 4*time.Minute, 5 * time.Minute}[i])
			synctest.Wait()
			require.Equal(t, want, panics.Load(), "look %d", i)
		}
		require.Zero(t, stalls.Load())
		s := tw.Stats()
		require.EqualValues(t, 2, s.Expired)
		require.LessOrEqual(t, s.Refiled, uint64(10), "a week costs a few visits")
	})
}

// Each key is executed, removed or drained, once, under any calls at the same time, and
// none stays in the map.
func TestKeyedConcurrently(t *testing.T) {
	const (
		keys = 2000
		life = 30 * time.Millisecond
	)
	var executed, removed, drained [keys]atomic.Int32
	tw, err := NewTimingWheel(time.Millisecond, 20, func(key, _ int) { executed[key].Add(1) })
	require.NoError(t, err)
	defer tw.Stop()
	ended := func(key int) int32 {
		return executed[key].Load() + removed[key].Load() + drained[key].Load()
	}
	var set [keys]int32 // each key is set by one goroutine, after its end
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			end := time.Now().Add(time.Second)
			for time.Now().Before(end) {
				key := rnd.IntN(keys/4)*4 + g
				switch rnd.IntN(8) {
				case 0:
					if tw.RemoveTimer(key) == nil {
						removed[key].Add(1)
					}
				case 1:
					if ended(key) == set[key] {
						set[key]++
						require.NoError(t, tw.SetTimer(key, 0, life))
					}
				default:
					_ = tw.MoveTimer(key, life/2+time.Duration(rnd.IntN(int(life))))
				}
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			time.Sleep(50 * time.Millisecond)
			_ = tw.Drain(func(key, _ int) { drained[key].Add(1) })
		}
	})
	wg.Wait()
	require.Eventually(t, func() bool { return tw.Len() == 0 }, time.Minute, time.Millisecond)
	for key := range set {
		require.Eventually(t, func() bool { return ended(key) == set[key] }, time.Minute, time.Millisecond)
	}
	require.Zero(t, kept(tw))
}

func TestMemoryComesBackAfterACrowdOfKeys(t *testing.T) {
	const crowd = 50_000
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	tw, err := NewTimingWheel(tick, 10, func(int, int) {})
	require.NoError(t, err)
	defer tw.Stop()
	before := heap()
	for key := range crowd {
		require.NoError(t, tw.SetTimer(key, 0, time.Hour))
	}
	full := heap() - before
	for key := range crowd {
		require.NoError(t, tw.RemoveTimer(key))
	}
	require.Less(t, heap()-before, full/10)
}

// A key's own delay may be longer than the one it was set with: it is not looked at each time that would have passed.
func TestAKeyMovedToALongerDelayIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 1000
		tw, err := NewTimingWheel(10*time.Millisecond, 512, func(int, int) {})
		require.NoError(t, err)
		defer tw.Stop()
		for k := range keys {
			require.NoError(t, tw.SetTimer(k, k, 50*time.Millisecond))
			require.NoError(t, tw.MoveTimer(k, time.Hour))
		}
		time.Sleep(10 * time.Minute)
		require.LessOrEqual(t, tw.Stats().Refiled, uint64(150*keys), "once per revolution of the wheel, 5.12 s")
		require.Equal(t, keys, tw.Len())
	})
}

// Keys that change their delay while they are drained are each drained once, or stay.
func TestKeysMoveToOtherDelaysWhileTheyAreDrained(t *testing.T) {
	const keys = 200
	tw, err := NewTimingWheel(10*time.Millisecond, 512, func(int, int) {})
	require.NoError(t, err)
	defer tw.Stop()
	for k := range keys {
		require.NoError(t, tw.SetTimer(k, k, time.Hour))
	}
	var movers sync.WaitGroup
	for m := range 4 {
		movers.Go(func() {
			for i := range 20 * keys {
				_ = tw.MoveTimer(i%keys, time.Hour+time.Duration(m+i/keys)*time.Minute)
			}
		})
	}
	drained := map[int]int{}
	require.NoError(t, tw.Drain(func(key, value int) {
		require.Equal(t, key, value)
		drained[key]++
	}))
	movers.Wait()
	require.Len(t, drained, keys)
	for _, n := range drained {
		require.Equal(t, 1, n)
	}
	require.Zero(t, tw.Len())
}
