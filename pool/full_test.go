package pool

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/wheel"
)

func TestWaitTellsWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, time.Hour, Config[int]{Capacity: 2, Full: Wait})
		require.NoError(t, p.Wait(t.Context()))
		a, err := p.Add(1)
		require.NoError(t, err)
		b, err := p.Add(2)
		require.NoError(t, err)
		_, err = p.Add(3)
		require.ErrorIs(t, err, ErrFull)

		var through atomic.Int64
		var waiting sync.WaitGroup
		for range 5 {
			waiting.Go(func() {
				for {
					if err := p.Wait(t.Context()); err != nil {
						require.ErrorIs(t, err, wheel.ErrClosed)
						return
					}
					if _, err := p.Add(9); err == nil {
						through.Add(1)
						return
					}
				}
			})
		}
		synctest.Wait()
		require.Zero(t, through.Load())
		a.Remove()
		synctest.Wait()
		require.EqualValues(t, 1, through.Load())
		b.Remove()
		synctest.Wait()
		require.EqualValues(t, 2, through.Load())
		p.Resize(4, 0)
		synctest.Wait()
		require.EqualValues(t, 4, through.Load())

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, p.Wait(ctx), context.DeadlineExceeded)
		require.NoError(t, p.Close())
		waiting.Wait()
	})
}

func TestEvictsTheIdlestThatIsIdleEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		evicted := make(chan int, 10)
		p := newTestPool(t, time.Hour, Config[int]{
			Capacity: 5, Full: EvictIdlest, MinIdle: 10 * time.Second,
			Due: func(*Member[int], int) { t.Error("nobody is due") },
			Evict: func(m *Member[int], v int) {
				if _, ok := m.Expire(); ok {
					evicted <- v
				}
			},
		})
		var members []*Member[int]
		add := func(v int) error {
			m, err := p.Add(v)
			if err == nil {
				members = append(members, m)
			}
			return err
		}
		for v := range 5 {
			require.NoError(t, add(v))
			time.Sleep(2 * time.Second)
		}
		require.True(t, members[0].Touch())
		require.ErrorIs(t, add(5), ErrFull, "the second is idle for 8s")
		time.Sleep(2*time.Second + 200*ms) // longer than searchAgain
		require.NoError(t, add(5))
		require.Equal(t, 1, <-evicted)
		require.ErrorIs(t, add(6), ErrFull, "the third is idle for 8s")
		time.Sleep(time.Minute)
		for i, want := range []int{2, 3, 4, 0, 5} {
			require.NoError(t, add(6+i))
			require.Equal(t, want, <-evicted)
		}
		require.Equal(t, 5, p.Len())
	})
}

// A storm of newcomers evicts the idlest each time, without a look at all members, and
// never a touched one.
func TestEvictionUnderAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const capacity = 10_000
		var mu sync.Mutex
		var evicted []int
		p := newTestPool(t, time.Minute, Config[int]{
			Capacity: capacity, Full: EvictIdlest, MinIdle: time.Second,
			Evict: func(m *Member[int], v int) {
				if _, ok := m.Expire(); ok {
					mu.Lock()
					evicted = append(evicted, v)
					mu.Unlock()
				}
			},
		})
		members := make([]*Member[int], capacity)
		for v := range members {
			m, err := p.Add(v)
			require.NoError(t, err)
			members[v] = m
			if v%100 == 99 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		touched := map[int]bool{}
		for range capacity / 2 {
			v := rand.IntN(capacity)
			touched[v] = members[v].Touch()
		}
		for range capacity / 4 {
			_, err := p.Add(-1)
			require.NoError(t, err)
			require.LessOrEqual(t, p.Len(), capacity+maxEvicted)
			synctest.Wait()
		}
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, evicted, capacity/4)
		// The idlest came first, and were not touched.
		want := 0
		for _, v := range evicted {
			for touched[want] {
				want++
			}
			require.InDelta(t, want, v, 300, "a tick or two of a hundred each")
			want++
		}
	})
}

// A member with a bad timeout, or one used before, can't join, and so nobody is evicted for it.
func TestNobodyIsEvictedForARefusedMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, time.Hour, Config[int]{
			Capacity: 2, Full: EvictIdlest,
			Evict: func(m *Member[int], v int) { t.Errorf("evicted: %d", v); m.Expire() },
		})
		used, err := p.Add(1)
		require.NoError(t, err)
		ended, err := p.Add(2)
		require.NoError(t, err)
		ended.Remove()
		_, err = p.Add(3)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.ErrorIs(t, p.Join(new(Member[int]), 4, 0), wheel.ErrArgument)
		require.ErrorIs(t, p.Join(used, 5, time.Second), wheel.ErrArgument)
		require.ErrorIs(t, p.Join(ended, 6, time.Second), wheel.ErrArgument)
		synctest.Wait()
		require.Equal(t, 2, p.Len())
	})
}

func TestEvictedIsSavedByATouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, time.Hour, Config[int]{
			Capacity: 1, Full: EvictIdlest,
			Evict: func(m *Member[int], _ int) {
				require.True(t, m.Touch())
				_, ok := m.Expire()
				require.False(t, ok)
			},
		})
		_, err := p.Add(1)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		_, err = p.Add(2)
		require.NoError(t, err, "there will be room")
		synctest.Wait()
		require.Equal(t, 2, p.Len(), "but there was none")
		_, err = p.Add(3)
		require.ErrorIs(t, err, ErrFull)
		time.Sleep(time.Second - 1)
		_, err = p.Add(3)
		require.ErrorIs(t, err, ErrFull, "not idle enough by default: ten ticks")
	})
}

// A member may be saved before Evict is called, or by it. When it is due again, that is for its own
// timeout: Due decides about it.
func TestSavedFromEvictionAMemberIsDueAsBefore(t *testing.T) {
	for name, save := range map[string]func(m *Member[int]) bool{
		"touched":    (*Member[int]).Touch,
		"given time": func(m *Member[int]) bool { return m.Rearm(0) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var evicted, due atomic.Int32
				p := newTestPool(t, time.Minute, Config[int]{
					Capacity: 1, Full: EvictIdlest,
					Evict: func(m *Member[int], _ int) { evicted.Add(1); require.True(t, save(m)) },
					Due:   func(m *Member[int], _ int) { due.Add(1); m.Expire() },
				})
				_, err := p.Add(1)
				require.NoError(t, err)
				time.Sleep(10 * time.Second)
				_, err = p.Add(2)
				require.NoError(t, err)
				time.Sleep(2 * time.Minute)
				require.Equal(t, int32(1), evicted.Load(), "once for one newcomer")
				require.Equal(t, int32(2), due.Load())
			})
		})
	}
}

// All workers are busy: so Evict would come later than the touch.
func TestSavedBeforeEvictAMemberIsDueAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var due atomic.Int32
		p := newTestPool(t, time.Minute, Config[int]{
			Capacity: 2, Full: EvictIdlest,
			Evict: func(*Member[int], int) { t.Error("it was saved") },
			Due: func(m *Member[int], v int) {
				due.Add(1)
				m.Expire()
				if v == 0 {
					<-free
				}
			},
			Wheel: wheel.Config{Workers: 1},
		})
		_, err := p.Add(0)
		require.NoError(t, err)
		time.Sleep(30 * time.Second)
		m, err := p.Add(1)
		require.NoError(t, err)
		time.Sleep(40 * time.Second)
		_, err = p.Add(2)
		require.NoError(t, err)
		_, err = p.Add(3)
		require.NoError(t, err)
		require.True(t, m.IsDue())
		require.True(t, m.Touch())
		close(free)
		time.Sleep(2 * time.Minute)
		require.Equal(t, int32(4), due.Load())
	})
}

func TestLimitHandsOverHoweverOftenAMemberIsTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limit atomic.Int64
		limit.Store(int64(5 * time.Second))
		handed := make(chan time.Duration, 1)
		begin := time.Now()
		p := newTestPool(t, time.Second, Config[int]{
			Limit: func(int) time.Duration { return time.Duration(limit.Load()) },
			Due: func(m *Member[int], _ int) {
				limit.Add(int64(100 * time.Second))
				at, _ := m.Touched()
				m.Rearm(at + time.Second)
				handed <- time.Since(begin)
			},
		})
		m, err := p.Add(1)
		require.NoError(t, err)
		go func() {
			for m.Touch() {
				time.Sleep(70 * time.Millisecond)
			}
		}()
		require.InDelta(t, 5*time.Second, <-handed, 2e8)
		require.InDelta(t, 105*time.Second, <-handed, 2e8)
		require.EqualValues(t, 0, p.Wheel().Stats().Expired)
		m.Remove()
		time.Sleep(100 * ms)
	})
}

func TestFullIsChecked(t *testing.T) {
	due := func(*Member[int], int) {}
	for want, cfg := range map[string]Config[int]{
		"Full 3, must be 0 to 2":                     {Full: 3},
		"Full -1, must be 0 to 2":                    {Full: -1},
		"Full is evict, and Evict is nil":            {Full: EvictIdlest},
		"MinIdle -1s, must not be negative":          {Full: EvictIdlest, Evict: due, MinIdle: -time.Second},
		"MinIdle 1s is for Full evict, not for wait": {Full: Wait, MinIdle: time.Second},
		"MinIdle 1ns is for Full evict":              {Full: Wait, MinIdle: 1},
	} {
		cfg.Due = due
		_, err := New(cfg)
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, "reject wait evict Full(7)", Reject.String()+" "+Wait.String()+" "+EvictIdlest.String()+" "+Full(7).String())
	require.Equal(t, "Full(-1) Full(3)", Full(-1).String()+" "+Full(3).String())
}

func TestNoCapacityIsRoomForAnyNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, time.Minute, Config[int]{Full: Wait})
		require.NoError(t, p.Wait(t.Context()))
		for _, capacity := range []int{0, -1} {
			p.Resize(1, 0)
			for range 3 {
				_, _ = p.Add(1)
			}
			p.Resize(capacity, 0)
			require.NoError(t, p.Wait(t.Context()))
			for range 3 {
				_, err := p.Add(1)
				require.NoError(t, err)
			}
		}
	})
}

// Wait works with Reject, too.
func TestWaitWithReject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, time.Minute, Config[int]{Capacity: 1, Due: func(*Member[int], int) {}})
		m, err := p.Add(1)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() { time.Sleep(time.Second); m.Remove() }()
		require.NoError(t, p.Wait(ctx))
	})
}

// A capacity far below the number of members evicts nobody: 64 on their way out would be too few.
func TestShrunkCapacityEvictsAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, time.Hour, Config[int]{Capacity: 1000, Full: EvictIdlest, Due: func(*Member[int], int) {}, Evict: func(m *Member[int], _ int) { m.Expire() }})
		for range 1000 {
			_, err := p.Add(1)
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		for _, capacity := range []int{100, 1000 - maxEvicted} {
			p.Resize(capacity, 0)
			_, err := p.Add(1)
			synctest.Wait()
			t.Logf("%v; %d members", err, p.Len())
			require.False(t, err != nil && p.Len() < 1000, "refused, and members evicted for it")
			require.ErrorIs(t, err, ErrFull)
		}
		p.Resize(1000-maxEvicted+1, 0)
		_, err := p.Add(1)
		require.NoError(t, err, "64 out, one in")
		synctest.Wait()
		require.Equal(t, 1000-maxEvicted+1, p.Len())
	})
}

func TestOnlyEvictIdlestEvicts(t *testing.T) {
	for _, full := range []Full{Reject, Wait} {
		synctest.Test(t, func(t *testing.T) {
			p := newTestPool(t, time.Hour, Config[int]{Capacity: 1, Full: full, Due: func(*Member[int], int) { t.Error("due") }})
			m, err := p.Add(1)
			require.NoError(t, err)
			time.Sleep(time.Minute)
			_, err = p.Add(2)
			require.ErrorIs(t, err, ErrFull)
			synctest.Wait()
			require.False(t, m.IsDue())
		})
	}
}

// A search finds more members than are evicted now. Until their turn they may be touched, or leave.
func TestFoundMembersAreLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		evicted := make(chan int, 10)
		p := newTestPool(t, time.Hour, Config[int]{
			Capacity: 4, Full: EvictIdlest, MinIdle: 10 * time.Second,
			Evict: func(m *Member[int], v int) { m.Expire(); evicted <- v },
		})
		var members []*Member[int]
		for v := range 4 {
			m, err := p.Add(v)
			require.NoError(t, err)
			members = append(members, m)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		add := func() {
			_, err := p.Add(9)
			require.NoError(t, err)
			synctest.Wait()
		}
		add()
		require.Equal(t, 0, <-evicted)
		require.True(t, members[1].Touch())
		members[2].Remove()
		add()
		require.Empty(t, evicted, "one has left")
		add()
		require.Equal(t, 3, <-evicted, "1 was touched, 2 is gone")
		require.Equal(t, 4, p.Len())
	})
}

func TestDueMembersAreNotEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := make(chan int, 10)
		p := newTestPool(t, time.Second, Config[int]{
			Capacity: 1, Full: EvictIdlest,
			Due:   func(m *Member[int], v int) { m.Expire(); due <- v },
			Evict: func(*Member[int], int) { t.Error("there was room") },
		})
		_, err := p.Add(1)
		require.NoError(t, err)
		require.Equal(t, 1, <-due)
	})
}

// A search for nothing has looked at every member, and the next one is a second or ten ticks later.
func TestRefusedNewcomersDoNotSearchAgainAtOnce(t *testing.T) {
	for tick, pause := range map[time.Duration]time.Duration{50 * ms: time.Second, 400 * ms: 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			looks := 0
			p := newTestPool(t, 30*time.Second, Config[int]{
				Capacity: 100, Full: EvictIdlest, Wheel: wheel.Config{Tick: tick},
				Evictable: func(int) bool { looks++; return false },
				Evict:     func(*Member[int], int) { t.Error("evicted") },
			})
			for range 100 {
				_, err := p.Add(1)
				require.NoError(t, err)
			}
			time.Sleep(5 * time.Second)
			refused := func() int {
				before := looks
				_, err := p.Add(2)
				require.ErrorIs(t, err, ErrFull)
				return looks - before
			}
			require.NotZero(t, refused())
			require.Zero(t, refused())
			time.Sleep(pause / 2)
			require.Zero(t, refused())
			time.Sleep(pause/2 - tick)
			require.Zero(t, refused())
			time.Sleep(2 * tick)
			require.NotZero(t, refused())
		})
	}
}

// Some members are silent, and have been due once and got more time. Others beat, and are silent for long enough, too.
func TestTheSilentMakeRoomBeforeThoseThatBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const capacity, steps = 6000, 300
		var evicted []int
		p := newTestPool(t, time.Minute, Config[int]{
			Capacity: capacity, Full: EvictIdlest, MinIdle: time.Second,
			Due: func(m *Member[int], _ int) {
				touched, _ := m.Touched()
				m.Rearm(touched + 5*time.Minute)
			},
			Evict: func(m *Member[int], v int) { m.Expire(); evicted = append(evicted, v) },
		})
		isSilent := func(v int) bool { return v%10 == 0 }
		var members []*Member[int]
		for step := range 3 * steps { // they beat each 30 s
			for v := step % steps; v < capacity; v += steps {
				if step < steps {
					m, err := p.Add(v)
					require.NoError(t, err)
					members = append(members, m)
				} else if m := members[(v%steps)*(capacity/steps)+v/steps]; !isSilent(v) {
					require.True(t, m.Touch())
				}
			}
			time.Sleep(100 * ms)
		}
		for range capacity / 10 {
			_, err := p.Add(-1)
			require.NoError(t, err)
			synctest.Wait()
			require.True(t, isSilent(evicted[len(evicted)-1]))
		}
	})
}

// Nobody may be evicted, or all that are found were touched in the meantime.
func TestANewcomerWaitsForALookAtSoManyMembersAtMost(t *testing.T) {
	const capacity = 5 * searchAmong / 4
	for _, touches := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			looks, free := 0, -1
			members := make([]*Member[int], capacity+1)
			p := newTestPool(t, time.Hour, Config[int]{
				Capacity: capacity, Full: EvictIdlest,
				Evictable: func(v int) bool {
					looks++
					return v == free || touches && members[v].Touch()
				},
				Evict: func(m *Member[int], v int) { require.Equal(t, free, v); m.Expire() },
			})
			join := func(v int) error {
				looks, members[v] = 0, new(Member[int])
				return p.Join(members[v], v, time.Hour)
			}
			for v := range capacity {
				require.NoError(t, join(v))
			}
			time.Sleep(10 * time.Second)
			for range 2 {
				require.ErrorIs(t, join(capacity), ErrFull)
				require.NotZero(t, looks)
				require.Less(t, looks, searchAmong+600)
			}
			require.ErrorIs(t, join(capacity), ErrFull)
			require.Zero(t, looks, "a pause")
			if touches {
				return
			}
			time.Sleep(10 * time.Second)
			free = 12345
			refused := 0
			for join(capacity) != nil {
				refused++
			}
			require.Less(t, refused, 2, "it is found, wherever it is")
		})
	}
}

// Among more members than a search looks at, a sample stands for all.
func TestTheEvictedAreAmongTheIdlest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const capacity = 2 * searchAmong
		var evicted []int
		p := newTestPool(t, time.Hour, Config[int]{
			Capacity: capacity, Full: EvictIdlest,
			Evict: func(m *Member[int], v int) { m.Expire(); evicted = append(evicted, v) },
		})
		for v := range capacity {
			_, err := p.Add(v)
			require.NoError(t, err)
			if v%200 == 0 {
				time.Sleep(100 * ms)
			}
		}
		time.Sleep(10 * time.Second)
		for v := range 5 * maxEvicted {
			_, err := p.Add(capacity)
			require.NoError(t, err)
			synctest.Wait()
			require.Len(t, evicted, v+1)
		}
		slices.Sort(evicted)
		require.Less(t, evicted[len(evicted)-1], capacity/20, "of %v", evicted)
	})
}

// A member found by a search was touched before its turn. However long ago that is, others are idler.
func TestAMemberTouchedSinceTheSearchIsNotTheIdlest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var evicted []int
		p := newTestPool(t, time.Hour, Config[int]{
			Capacity: 100, Full: EvictIdlest,
			Evict: func(m *Member[int], v int) { m.Expire(); evicted = append(evicted, v) },
		})
		var members []*Member[int]
		add := func(v int) {
			m, err := p.Add(v)
			require.NoError(t, err)
			synctest.Wait()
			members = append(members, m)
		}
		for v := range 100 {
			add(v)
			time.Sleep(time.Second)
		}
		add(100)
		for _, m := range members[1:50] {
			require.True(t, m.Touch())
		}
		time.Sleep(time.Minute)
		for v := range 48 {
			add(101 + v)
		}
		want := []int{0}
		for v := range 48 {
			want = append(want, 50+v)
		}
		require.Equal(t, want, evicted)
	})
}

// MinIdle counts whole ticks, and the tick of the touch may have been nearly over.
func TestMinIdleIsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, time.Hour, Config[int]{
			Capacity: 1, Full: EvictIdlest, MinIdle: 200 * time.Millisecond,
			Due: func(*Member[int], int) {}, Evict: func(m *Member[int], _ int) { m.Expire() },
		})
		m, err := p.Add(1)
		require.NoError(t, err)
		time.Sleep(199 * time.Millisecond)
		require.True(t, m.Touch())
		time.Sleep(102 * time.Millisecond)
		_, err = p.Add(2)
		require.ErrorIs(t, err, ErrFull, "touched 102ms ago, MinIdle is 200ms")
	})
}

// Who may not be evicted is passed over, by the search and after it, and newcomers find no room in their place.
func TestOnlyTheEvictableAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := map[int]bool{}
		var evicted []int
		p := newTestPool(t, time.Hour, Config[int]{
			Capacity: 3, Full: EvictIdlest,
			Evictable: func(v int) bool { return !kept[v] },
			Evict:     func(m *Member[int], v int) { evicted = append(evicted, v); m.Expire() },
		})
		add := func(v int) error {
			time.Sleep(2 * time.Second)
			_, err := p.Add(v)
			synctest.Wait()
			return err
		}
		for v := range 3 {
			require.NoError(t, add(v))
		}
		kept[0] = true
		require.NoError(t, add(3))
		require.Equal(t, []int{1}, evicted, "the idlest of the others")
		kept[2] = true // found already, and not evicted yet
		require.NoError(t, add(4))
		require.Equal(t, []int{1, 3}, evicted)
		kept[4] = true
		require.ErrorIs(t, add(5), ErrFull)
		require.Equal(t, 3, p.Len())
	})
}
