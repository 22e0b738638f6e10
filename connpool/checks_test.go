package connpool

import (
	"context"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// deafCheck is a check that hangs until the gate is closed, whatever its context says.
func deafCheck(gate chan struct{}, calls *atomic.Int64) func(context.Context, *fake) error {
	return func(context.Context, *fake) error {
		calls.Add(1)
		<-gate
		return nil
	}
}

func TestACheckThatHangsCostsItsConnectionAndHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var calls atomic.Int64
		p, s := newTestPool(t, Config[*fake]{MaxOpen: 1, Check: deafCheck(gate, &calls), MaxIdleTime: -1})
		getMany(t, p, 1)
		begin := time.Now()
		l := get(t, p)
		require.Equal(t, time.Second+patience, time.Since(begin))
		require.Equal(t, 1, l.Conn.id, "a new one, in the place of the other")
		require.Equal(t, ReasonCheck, s.conn(0).why())
		require.Equal(t, 1, p.Stats().Hanging)
		require.NoError(t, l.Put())

		ctx, cancel := context.WithTimeout(bg, 1600*ms)
		defer cancel()
		begin = time.Now()
		l, err := p.Get(ctx) // the check has half of it
		require.NoError(t, err)
		require.Equal(t, 800*ms+patience, time.Since(begin))
		require.NoError(t, l.Put())
		require.Equal(t, 2, p.Stats().Hanging)
		close(gate)
		synctest.Wait()
		require.Zero(t, p.Stats().Hanging)
		require.EqualValues(t, 2, calls.Load())
		require.True(t, get(t, p).Reused(), "checked, and good")
		require.EqualValues(t, 3, calls.Load())
	})
}

func TestChecksThatHangAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := NewGroup(wheel.Config{Workers: 3})
		require.NoError(t, err)
		defer g.Close()
		gate := make(chan struct{})
		var calls atomic.Int64
		p, s := newTestPool(t, Config[*fake]{Group: g, MaxIdleTime: -1, Check: deafCheck(gate, &calls)})
		for range 3 {
			getMany(t, p, 1)
			getMany(t, p, 1) // by a dial
		}
		require.Equal(t, 3, p.Stats().Hanging)
		begin := time.Now()
		for range 10 {
			getMany(t, p, 1)
		}
		require.Zero(t, time.Since(begin))
		require.EqualValues(t, 3, calls.Load())
		require.Equal(t, 3, p.Stats().Hanging)
		synctest.Wait()
		require.Equal(t, 1, s.openNow(), "those that could not be checked are closed")
		close(gate)
	})
}

func TestAHangingCheckInPutOrInTheBackgroundHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var calls atomic.Int64
		p, _ := newTestPool(t, Config[*fake]{CheckPut: deafCheck(gate, &calls), CheckTimeout: 2 * time.Second})
		l := get(t, p)
		begin := time.Now()
		require.NoError(t, l.Put())
		require.Equal(t, 2*time.Second+patience, time.Since(begin))
		require.Equal(t, ReasonCheck, l.Conn.why())

		q, s := newTestPool(t, Config[*fake]{Check: deafCheck(gate, &calls), MinIdle: 1, MaxIdleTime: time.Second, CheckTimeout: -1})
		pass(2 * time.Second)
		require.Equal(t, 1, q.Stats().InUse, "CheckTimeout is for ever")
		begin = time.Now()
		require.NoError(t, q.Close())
		require.Equal(t, patience, time.Since(begin))
		require.Equal(t, ReasonCheck, s.conn(0).why())
		require.Equal(t, 1, q.Stats().Hanging)
		close(gate)
	})
}

func TestACheckThatHasHungMayPanicOrEndItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGroup(t, nil)
		for i, last := range []func(){func() { panic("late") }, runtime.Goexit} {
			p, s := newTestPool(t, Config[*fake]{Group: g.Group, Check: func(context.Context, *fake) error {
				time.Sleep(time.Minute)
				last()
				return nil
			}})
			getMany(t, p, 1)
			require.False(t, get(t, p).Reused())
			pass(time.Minute)
			require.EqualValues(t, 1, g.panics.Load())
			require.EqualValues(t, 1-i, p.Stats().Panics)
			require.Zero(t, p.Stats().Hanging)
			require.Equal(t, ReasonCheck, s.conn(0).why())
		}
	})
}

func TestACheckThatEndsItsGoroutineInGetFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{Check: func(context.Context, *fake) error { runtime.Goexit(); return nil }})
		getMany(t, p, 1)
		require.False(t, get(t, p).Reused())
		synctest.Wait()
		require.Equal(t, ReasonCheck, s.conn(0).why())
	})
}

// The check ends at the very moment at which nobody waits for it any longer.
func TestACheckThatEndsWithThePatienceIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxIdleTime: -1, Check: func(context.Context, *fake) error {
			time.Sleep(time.Second + patience)
			return nil
		}})
		for range 100 {
			getMany(t, p, 1)
			pass(time.Second)
			require.Zero(t, p.Stats().Hanging)
			require.Equal(t, 1, s.openNow())
		}
	})
}

// Alive asks the socket and does not wait: it needs no goroutine.
func TestAliveIsCalledDirectly(t *testing.T) {
	require.True(t, isAlive(Alive))
	require.False(t, isAlive(func(ctx context.Context, c net.Conn) error { return Alive(ctx, c) }))
	require.False(t, isAlive((&fakeServer{}).check))
	require.False(t, isAlive[net.Conn](nil))
}
