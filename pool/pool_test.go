package pool

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/wheel"
)

const ms = time.Millisecond

// testPool is a pool with one timeout for all members.
type testPool[V any] struct {
	*Pool[V]
	timeout time.Duration
}

func newTestPool[V any](t testing.TB, timeout time.Duration, cfg Config[V]) testPool[V] {
	if cfg.Due == nil {
		cfg.Due = func(m *Member[V], _ V) { m.Expire() }
	}
	p, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return testPool[V]{p, timeout}
}

// Len returns the number of members.
func (p *Pool[V]) Len() int { return p.wheel.Len() }

// Add takes a new member into the pool.
func (p testPool[V]) Add(v V) (*Member[V], error) {
	m := new(Member[V])
	if err := p.Join(m, v, p.timeout); err != nil {
		return nil, err
	}
	return m, nil
}

func TestMemberStaysWhileItIsTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone atomic.Value
		p := newTestPool(t, time.Second, Config[string]{Due: func(m *Member[string], v string) {
			if _, ok := m.Expire(); ok {
				gone.Store(v)
			}
		}})
		m, err := p.Add("a")
		require.NoError(t, err)
		for range 50 {
			time.Sleep(999 * ms)
			require.True(t, m.Touch())
		}
		require.Equal(t, 1, p.Len())
		v, ok := m.Value()
		require.True(t, ok)
		require.Equal(t, "a", v)
		time.Sleep(time.Second - 1)
		require.Nil(t, gone.Load())
		time.Sleep(200*ms + 1)
		synctest.Wait()
		require.Equal(t, "a", gone.Load())
		require.Zero(t, p.Len())
		require.False(t, m.Touch())
		require.False(t, m.SetDelay(time.Second))
		require.False(t, m.Rearm(time.Hour))
		_, ok = m.Remove()
		require.False(t, ok)
		_, ok = m.Value()
		require.False(t, ok)
	})
}

func TestSetDelayIsOfOneMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, time.Second, Config[int]{})
		m, err := p.Add(1)
		require.NoError(t, err)
		other, err := p.Add(2)
		require.NoError(t, err)
		require.True(t, m.SetDelay(10*time.Second))
		time.Sleep(9 * time.Second)
		synctest.Wait()
		require.False(t, other.Touch())
		require.True(t, m.Touch())
		require.True(t, m.SetDelay(ms), "shorter too")
		time.Sleep(201 * ms)
		synctest.Wait()
		require.False(t, m.Touch())
	})
}

func TestRearmIsForOnceAndOnlyForADueMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dues := make(chan *Member[int], 1)
		p := newTestPool(t, time.Second, Config[int]{Due: func(m *Member[int], _ int) { dues <- m }})
		m, err := p.Add(1)
		require.NoError(t, err)
		in := func(d time.Duration) time.Duration { return p.Wheel().Time(0) + d }
		require.False(t, m.Rearm(in(time.Minute)), "not due")
		require.Same(t, m, <-dues)
		require.Equal(t, 1, p.Len())
		begin := time.Now()
		require.True(t, m.Rearm(in(time.Minute)))
		require.False(t, m.Rearm(in(time.Hour)))
		time.Sleep(59 * time.Second)
		require.Empty(t, dues)
		require.Same(t, m, <-dues)
		require.LessOrEqual(t, time.Since(begin), time.Minute+p.eviction.tenTicks/10, "not two ticks")

		require.True(t, m.Touch(), "saved")
		require.False(t, m.Rearm(in(time.Millisecond)), "must not shorten what a touch has promised")
		start := time.Now()
		require.Same(t, m, <-dues)
		require.GreaterOrEqual(t, time.Since(start), time.Second)
		_, ok := m.Expire()
		require.True(t, ok)
		require.Zero(t, p.Len())
		require.False(t, m.Rearm(in(time.Second)))
	})
}

func TestCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, time.Second, Config[int]{Capacity: 2})
		a, err := p.Add(1)
		require.NoError(t, err)
		_, err = p.Add(2)
		require.NoError(t, err)
		_, err = p.Add(3)
		require.ErrorIs(t, err, ErrFull)
		require.EqualError(t, err, "pool: full: has its 2 members")
		_, ok := a.Remove()
		require.True(t, ok)
		_, err = p.Add(3)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Zero(t, p.Len())
		_, err = p.Add(4)
		require.NoError(t, err, "those that expired make room too")
	})
}

func TestCapacityIsExactForManyAtOnce(t *testing.T) {
	p := newTestPool(t, time.Hour, Config[int]{Capacity: 4})
	var added atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				m, err := p.Add(1)
				if err != nil {
					continue
				}
				if n := added.Add(1); n > 4 {
					t.Errorf("%d members", n)
				}
				added.Add(-1)
				m.Remove()
			}
		})
	}
	wg.Wait()
	require.Zero(t, p.Len())
}

func TestJoinUsesTheCallersMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type session struct {
			name   string
			member Member[*session]
		}
		var gone atomic.Pointer[session]
		p := newTestPool(t, time.Second, Config[*session]{Due: func(m *Member[*session], s *session) {
			if _, ok := m.Expire(); ok {
				gone.Store(s)
			}
		}})
		s := &session{name: "s"}
		require.False(t, s.member.Touch())
		require.NoError(t, p.Join(&s.member, s, time.Second))
		require.ErrorIs(t, p.Join(&s.member, s, time.Second), wheel.ErrArgument, "a member already")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Same(t, s, gone.Load())
	})
}

func TestAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, time.Minute, Config[int]{})
		members := map[int]*Member[int]{}
		for i := range 100 {
			m, err := p.Add(i)
			require.NoError(t, err)
			members[i] = m
			time.Sleep(100 * ms)
		}
		var seen []int
		for m, v := range p.Wheel().All() {
			require.Same(t, members[v], m)
			seen = append(seen, v)
			members[(v+1)%100].Remove() // the pool may change meanwhile
		}
		require.Less(t, len(seen), 100, "those that left are not shown")
		require.GreaterOrEqual(t, len(seen), p.Len())
		slices.Sort(seen)
		require.Equal(t, seen, slices.Compact(slices.Clone(seen)), "each once")
		for m := range p.Wheel().All() {
			m.Remove()
		}
		require.Zero(t, p.Len())
		for range p.Wheel().All() {
			t.Error("nobody is left")
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, time.Second, Config[int]{Due: func(*Member[int], int) { t.Error("due after Close") }})
		m, err := p.Add(1)
		require.NoError(t, err)
		require.NoError(t, p.Close())
		require.NoError(t, p.Close())
		require.False(t, m.Touch())
		require.Zero(t, p.Len())
		_, err = p.Add(2)
		require.ErrorIs(t, err, wheel.ErrClosed)
		require.ErrorIs(t, p.Wait(t.Context()), wheel.ErrClosed, "or whoever waits to Add would go round for ever")
		time.Sleep(time.Minute)
	})
}

func TestConfigErrorsNameTheValueAndTheLimit(t *testing.T) {
	due := func(*Member[int], int) {}
	for _, c := range []struct {
		cfg  Config[int]
		want string
	}{
		{Config[int]{Due: due, Capacity: -1}, "pool: invalid argument: Capacity -1, must not be negative"},
		{Config[int]{}, "pool: invalid argument: Due is nil"},
		{Config[int]{Due: due, Wheel: wheel.Config{Tick: 1}}, "pool: invalid argument: wheel: invalid argument: Tick 1ns, must be at least 1ms"},
	} {
		_, err := New(c.cfg)
		require.ErrorIs(t, err, ErrArgument)
		require.EqualError(t, err, c.want)
	}
}
