package connpool

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// later calls f, and returns a function that reports whether f has returned, and its error.
func later(f func() error) func() (done bool, err error) {
	result := make(chan error, 1)
	go func() { result <- f() }()
	return func() (bool, error) {
		synctest.Wait()
		select {
		case err := <-result:
			return true, err
		default:
			return false, nil
		}
	}
}

func TestShutdownWaitsForEachLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxOpen: 4})
		a, b, c := get(t, p), get(t, p), get(t, p)
		getMany(t, p, 1)
		down := later(func() error { return p.Shutdown(bg) })
		again := later(func() error { return p.Shutdown(bg) })
		done, _ := down()
		require.False(t, done)
		require.Equal(t, 3, s.openNow(), "the idle one is closed")
		require.ErrorIs(t, get2(p), ErrClosed)
		require.NoError(t, p.Close(), "Close does not wait for leases")

		require.ErrorIs(t, a.Put(), ErrClosed)
		require.NoError(t, b.Drop())
		pass(time.Hour)
		done, _ = down()
		require.False(t, done)
		taken, err := c.Take()
		require.NoError(t, err)
		for _, f := range []func() (bool, error){down, again} {
			done, err = f()
			require.True(t, done)
			require.NoError(t, err)
		}
		s.close(taken, ReasonDropped)
		require.NoError(t, p.Shutdown(bg), "nothing is left")
		require.Zero(t, s.openNow())
	})
}

// A lease that is never put back, a Close and a Dial that hang.
func TestShutdownEndsWithItsContextAndLeavesWhatIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{t: t}
		cfg, release := hangs(s, Config[*fake]{MaxOpen: 3})
		p, err := New(cfg)
		require.NoError(t, err)
		l := get(t, p)
		leave := l.Conn.use()
		getMany(t, p, 1)
		other := get(t, p)
		s.set(func() { s.latency, s.deaf = time.Hour, true })
		waiting := make(chan Lease[*fake], 1)
		go func() { waiting <- get(t, p) }()
		synctest.Wait()
		require.NoError(t, other.Put()) // to the waiter, whose dial goes on
		other = <-waiting

		ctx, cancel := context.WithTimeout(bg, time.Minute)
		defer cancel()
		begin := time.Now()
		err = p.Shutdown(ctx)
		require.Equal(t, time.Minute, time.Since(begin))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "connpool: closed, with 2 connections in use, 0 being closed, 1 being dialed, and 0 jobs in the background: ")
		require.ErrorIs(t, get2(p), ErrClosed)
		leave() // it was not closed

		over, cancel := context.WithCancel(bg)
		cancel()
		require.ErrorIs(t, p.Shutdown(over), context.Canceled)
		go func() { _ = l.Put() }()
		synctest.Wait()
		require.ErrorContains(t, p.Shutdown(over), "1 connections in use, 1 being closed, 1 being dialed")
		release()
		again := later(func() error { return p.Shutdown(bg) })
		pass(2 * time.Hour)
		done, _ := again()
		require.False(t, done, "one is in use")
		require.ErrorIs(t, other.Put(), ErrClosed)
		done, err = again()
		require.True(t, done)
		require.NoError(t, err)
		require.Zero(t, s.openNow())
	})
}

func TestShutdownOfAGroupCountsThePoolsThatAreNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := NewGroup(wheel.Config{})
		require.NoError(t, err)
		a, _ := newTestPool(t, Config[*fake]{Group: g})
		b, _ := newTestPool(t, Config[*fake]{Group: g})
		l, m := get(t, a), get(t, b)
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		go func() {
			time.Sleep(500 * ms)
			_ = m.Put()
		}()
		err = g.Shutdown(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "connpool: 1 of 2 pools: connpool: closed, with 1 connections in use")
		require.Equal(t, 1, g.Len())
		_, err = New(Config[*fake]{Group: g, Dial: (&fakeServer{}).dial, Close: func(*fake, Reason) {}})
		require.ErrorIs(t, err, ErrClosed)

		down := later(func() error { return g.Shutdown(bg) })
		done, _ := down()
		require.False(t, done)
		require.ErrorIs(t, l.Put(), ErrClosed)
		done, err = down()
		require.True(t, done)
		require.NoError(t, err)
		require.Zero(t, g.Len())
		require.NoError(t, g.Close())
	})
}

// The report names the Get that Shutdown waits for.
func TestALeakIsReportedWhileShutdownWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, told := newLeakPool(t, Config[*fake]{})
		l := forgetful(t, p)
		ctx, cancel := context.WithTimeout(bg, 2*time.Second)
		defer cancel()
		require.Error(t, p.Shutdown(ctx))
		require.Len(t, told.take(), 1)
		require.ErrorIs(t, l.Put(), ErrClosed)
		require.Len(t, told.take(), 1, "and its return")
		require.NoError(t, p.Shutdown(bg))
	})
}

func TestShutdownLosesNoWakeup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 50 {
			p, s := newTestPool(t, Config[*fake]{})
			var users sync.WaitGroup
			for range 8 {
				l := get(t, p)
				users.Go(func() { _ = l.Put() })
			}
			require.NoError(t, p.Shutdown(bg))
			require.Zero(t, s.openNow())
			users.Wait()
		}
	})
}
