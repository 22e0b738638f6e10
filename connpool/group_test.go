package connpool

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/wheel"
)

func newTestGroup(t testing.TB, stall func(time.Duration)) *testGroup {
	g := new(testGroup)
	var err error
	g.Group, err = NewGroup(wheel.Config{OnStall: stall, OnPanic: func(any, []byte) { g.panics.Add(1) }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

// Ten idle connections to each of a thousand backends: one goroutine, the wheel's.
func TestPoolsOfAGroupShareOneGoroutine(t *testing.T) {
	const backends, each = 1000, 10
	before := runtime.NumGoroutine()
	g, err := NewGroup(wheel.Config{})
	require.NoError(t, err)
	var mu sync.Mutex
	open := 0
	var pools []*Pool[net.Conn]
	for range backends {
		p, err := New(Config[net.Conn]{
			Group:       g,
			MaxIdleTime: time.Second,
			MaxAge:      time.Hour,
			Dial: func(context.Context) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				open++
				c, peer := net.Pipe()
				return pipe{c, peer}, nil
			},
			Close: func(c net.Conn, _ Reason) {
				mu.Lock()
				defer mu.Unlock()
				open--
				_ = c.Close()
			},
		})
		require.NoError(t, err)
		pools = append(pools, p)
		var leases []Lease[net.Conn]
		for range each {
			l, err := p.Get(bg)
			require.NoError(t, err)
			leases = append(leases, l)
		}
		for _, l := range leases {
			require.NoError(t, l.Put())
		}
	}
	require.Equal(t, backends, g.Len())
	require.LessOrEqual(t, g.Stats().Pending+g.Stats().Due, backends*each)
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+2 }, eternal, ms,
		"%d goroutines, %d before", runtime.NumGoroutine(), before)
	for _, p := range pools { // each counts what it has closed
		require.Eventually(t, func() bool { return p.Stats().Closed[ReasonIdle] == each }, time.Minute, 10*ms)
	}
	mu.Lock()
	require.Zero(t, open)
	mu.Unlock()
	require.NoError(t, g.Close())
	require.Zero(t, g.Len())
	_, err = pools[0].Get(bg)
	require.ErrorIs(t, err, ErrClosed)
}

type pipe struct {
	net.Conn
	peer net.Conn
}

func (p pipe) Close() error {
	_ = p.peer.Close()
	return p.Conn.Close()
}

func TestCloseOfAPoolLeavesTheOthersOfItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGroup(t, nil)
		a, sa := newTestPool(t, Config[*fake]{Group: g.Group, MaxIdleTime: time.Second})
		b, sb := newTestPool(t, Config[*fake]{Group: g.Group, MaxIdleTime: time.Second, MinIdle: 1})
		getMany(t, a, 3)
		getMany(t, b, 3)
		require.NoError(t, a.Close())
		require.Zero(t, sa.openNow())
		require.Equal(t, 1, g.Len())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, sb.openNow(), "its wheel goes on")
		require.NoError(t, g.Close())
		require.NoError(t, g.Close())
		require.Zero(t, sb.openNow())
		_, err := New(Config[*fake]{Dial: sa.dial, Close: sa.close, Group: g.Group, MinIdle: 1})
		require.ErrorIs(t, err, ErrClosed)
		require.Zero(t, g.Stats().Pending)
	})
}

// The wheel leaves out the time of a stopped process. Servers don't.
func TestWhatWasIdleWhileTheProcessWasStoppedIsNotHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGroup(t, nil)
		s := &fakeServer{t: t}
		p := newPoolOf(t, s, Config[*fake]{Group: g.Group, MinIdle: 1, MaxIdleTime: time.Minute, CheckAfter: 10 * time.Second, Check: s.check})
		getMany(t, p, 3)
		synctest.Wait()
		idle := p.Stats().Idle
		oldest := p.idle.oldest.value
		g.lost.Add(int64(20 * time.Second))
		checked := s.seen(&s.checks)
		getMany(t, p, 2)
		require.Equal(t, checked+2, s.seen(&s.checks), "although no time has passed")
		getMany(t, p, 2)
		require.Equal(t, checked+2, s.seen(&s.checks))
		g.lost.Add(int64(time.Hour))
		l := get(t, p)
		require.Equal(t, checked+3, s.seen(&s.checks))
		require.Same(t, oldest, l.Conn, "the last one may be idle for long, but is checked")
		synctest.Wait()
		require.EqualValues(t, idle-1, p.Stats().Closed[ReasonIdle])

		old, _ := newTestPool(t, Config[*fake]{Group: g.Group, MaxAge: 30 * time.Minute, MaxIdleTime: -1})
		getMany(t, old, 1)
		g.lost.Add(int64(time.Hour))
		require.False(t, get(t, old).Reused())
		require.NoError(t, l.Put())
	})
}
