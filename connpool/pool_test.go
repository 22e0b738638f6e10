package connpool

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheConnectionThatCameBackLastLeavesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newTestPool(t, Config[*fake]{})
		a, b, c := get(t, p), get(t, p), get(t, p)
		require.False(t, a.Reused())
		for _, l := range []Lease[*fake]{b, c, a} {
			require.NoError(t, l.Put())
		}
		require.Equal(t, 3, p.Stats().Idle)
		for _, want := range []Lease[*fake]{a, c, b} {
			l := get(t, p)
			require.Same(t, want.Conn, l.Conn)
			require.True(t, l.Reused())
		}
		s := p.Stats()
		require.Equal(t, Stats{Open: 3, InUse: 3, Gets: 6, Waits: 3, Dials: 3}, s)
	})
}

func TestALeaseThatHasEndedDoesNoHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxOpen: 1})
		old := get(t, p)
		require.NoError(t, old.Put())
		require.ErrorIs(t, old.Put(), ErrReturned)
		now := get(t, p)
		require.Same(t, old.Conn, now.Conn)
		stale := func(l Lease[*fake]) {
			require.ErrorIs(t, l.Put(), ErrReturned)
			require.ErrorIs(t, l.Drop(), ErrReturned)
			_, err := l.Take()
			require.ErrorIs(t, err, ErrReturned)
		}
		stale(old)
		stale(Lease[*fake]{})
		stale(Lease[*fake]{Conn: now.Conn})
		require.Equal(t, 1, s.openNow(), "the successor has it")
		same := now
		require.NoError(t, now.Drop())
		stale(now)
		stale(same)
		require.Equal(t, ReasonDropped, now.Conn.why())
		require.Equal(t, 1, get(t, p).Conn.id, "a new one in its place")
	})
}

func TestGetWaitsAtMaxOpenAndWhoCameFirstIsServedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxOpen: 2})
		held := []Lease[*fake]{get(t, p), get(t, p)}
		served := make(chan int, 10)
		for i := range 10 {
			go func() {
				l, err := p.Get(bg)
				if err != nil {
					t.Error(err)
				}
				served <- i
				time.Sleep(10 * ms)
				if i%3 == 0 {
					_ = l.Drop() // then a dial is for the next
				} else {
					_ = l.Put()
				}
			}()
			synctest.Wait()
		}
		require.Equal(t, 10, p.Stats().Waiting)
		time.Sleep(time.Second)
		require.Empty(t, served)
		require.NoError(t, held[0].Put())
		require.Zero(t, <-served)
		time.Sleep(5 * ms) // no two come back at the same time
		require.NoError(t, held[1].Drop())
		for i := 1; i < 10; i++ {
			require.Equal(t, i, <-served)
			synctest.Wait()
		}
		time.Sleep(time.Second)
		require.Equal(t, 2, s.seen(&s.mostOpen))
		require.Greater(t, p.Stats().WaitTime, 10*time.Second)
	})
}

func TestAGetWhoseContextEndsLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxOpen: 1})
		l := get(t, p)
		ctx, cancel := context.WithTimeout(bg, 50*ms)
		defer cancel()
		_, err := p.Get(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no connection within 50ms, with 1 open and 0 being dialed")
		_, err = p.Get(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, p.Stats().Waiting)

		// The context ends and the connection comes at the same moment, in either order.
		for i := range 100 {
			ctx, cancel := context.WithCancel(bg)
			done := make(chan error)
			go func() {
				l, err := p.Get(ctx)
				if err == nil {
					err = l.Put()
				}
				done <- err
			}()
			next := make(chan Lease[*fake])
			synctest.Wait()
			go func() {
				l, err := p.Get(bg)
				if err != nil {
					t.Error(err)
				}
				next <- l
			}()
			synctest.Wait()
			if i%2 == 0 {
				go cancel()
				go func() { _ = l.Put() }()
			} else {
				_ = l.Put()
				cancel()
			}
			if err := <-done; err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
			l = <-next
			cancel()
		}
		require.Equal(t, 1, s.seen(&s.tries))
		require.NoError(t, l.Put())
	})
}

func TestDialsThatFailAnswerWhoWaitsAndCostNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxOpen: 2})
		s.set(func() { s.down, s.latency = errBroken, 10*ms })
		for range 10 {
			var g sync.WaitGroup
			for range 5 {
				g.Go(func() {
					_, err := p.Get(bg)
					if !errors.Is(err, errBroken) {
						t.Error(err)
					}
				})
			}
			g.Wait()
		}
		synctest.Wait()
		require.Equal(t, Stats{MaxOpen: 2, Waits: 50, Dials: 50, DialErrors: 50, WaitTime: p.Stats().WaitTime}, p.Stats())
		require.Equal(t, 2, s.seen(&s.mostDial))
		s.set(func() { s.down = nil })
		getMany(t, p, 2)
		require.Equal(t, 2, p.Stats().Idle)
	})
}

func TestDialThatPanicsOrEndsItsGoroutineOrReturnsNothingIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dial func() (*fake, error)
		s := &fakeServer{t: t}
		g := newTestGroup(t, nil)
		p := newPoolOf(t, s, Config[*fake]{MaxOpen: 1, Group: g.Group, Dial: func(context.Context) (*fake, error) { return dial() }})
		for want, f := range map[string]func() (*fake, error){
			"panic: ouch":                  func() (*fake, error) { panic("ouch") },
			"function ended its goroutine": func() (*fake, error) { runtime.Goexit(); return nil, nil },
		} {
			dial = f
			_, err := p.Get(bg)
			require.ErrorContains(t, err, want)
		}
		require.EqualValues(t, 1, p.Stats().Panics)
		require.EqualValues(t, 1, g.panics.Load())
		require.Zero(t, p.Stats().Dialing)

		nothing, err := New(Config[error]{
			Dial:  func(context.Context) (error, error) { return nil, nil },
			Close: func(error, Reason) {},
		})
		require.NoError(t, err)
		_, err = nothing.Get(bg)
		require.ErrorContains(t, err, "neither a connection nor an error")
		require.NoError(t, nothing.Close())
	})
}

// A backend that does not answer, and callers that come back again and again: there
// are as many dials as there were callers at one time.
func TestDialsDoNotPileUpBehindCallersThatGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{DialTimeout: 10 * time.Second})
		s.set(func() { s.latency = time.Hour })
		for range 50 {
			var g sync.WaitGroup
			for range 3 {
				g.Go(func() {
					ctx, cancel := context.WithTimeout(bg, 100*ms)
					defer cancel()
					_, err := p.Get(ctx)
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				})
			}
			g.Wait()
		}
		require.Equal(t, 3, p.Stats().Dialing)
		require.Equal(t, 3, s.seen(&s.tries))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Zero(t, p.Stats().Dialing, "a dial is bounded")
		require.EqualValues(t, 3, p.Stats().DialErrors)
	})
}

func TestADialThatNobodyWaitsForAnyMoreIsForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{})
		s.set(func() { s.latency = time.Second })
		ctx, cancel := context.WithTimeout(bg, 100*ms)
		defer cancel()
		_, err := p.Get(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		start := time.Now()
		l := get(t, p)
		require.Zero(t, time.Since(start))
		require.True(t, l.Reused(), "it was idle")

		// A Get in wait for a dial takes the first connection to come.
		go func() {
			time.Sleep(200 * ms)
			_ = l.Put()
		}()
		require.Same(t, l.Conn, get(t, p).Conn)
		require.Equal(t, 200*ms, time.Since(start))
	})
}

func TestPutClosesTheIdlestBeyondMaxIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxIdle: 2})
		getMany(t, p, 5)
		synctest.Wait() // Put waits for no close of another one
		for i, want := range []Reason{ReasonMaxIdle, ReasonMaxIdle, ReasonMaxIdle, 0, 0} {
			require.Equal(t, want, s.conn(i).why(), i)
		}
		require.Equal(t, 2, p.Stats().Open)
		require.EqualValues(t, 3, p.Stats().Closed[ReasonMaxIdle])
	})
}

func TestTakeFreesTheSlotAndLeavesTheConnectionAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxOpen: 1})
		l := get(t, p)
		c, err := l.Take()
		require.NoError(t, err)
		require.Same(t, l.Conn, c)
		require.ErrorIs(t, l.Put(), ErrReturned)
		require.Zero(t, p.group.Stats().Pending)
		other := get(t, p)
		waiting := make(chan Lease[*fake])
		go func() {
			l, _ := p.Get(bg)
			waiting <- l
		}()
		synctest.Wait()
		s.close(other.Conn, ReasonDropped)
		_, err = other.Take()
		require.NoError(t, err)
		other = <-waiting
		require.False(t, other.Reused())
		require.NoError(t, other.Put())
		require.NoError(t, p.Close())
		require.Zero(t, c.why())
		require.EqualValues(t, 2, p.Stats().Taken)
		s.close(c, ReasonDropped)
	})
}

func TestCloseWaitsForWhatThePoolHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxOpen: 3})
		used, idle := get(t, p), get(t, p)
		require.NoError(t, idle.Put())
		idle = get(t, p)
		s.set(func() { s.latency, s.deaf = 3*time.Second, true })
		waiting := make(chan error)
		for range 2 {
			go func() {
				_, err := p.Get(bg)
				waiting <- err
			}()
		}
		synctest.Wait()
		require.Equal(t, 1, p.Stats().Dialing)
		go func() {
			require.ErrorIs(t, <-waiting, ErrClosed)
			require.ErrorIs(t, <-waiting, ErrClosed)
		}()
		start := time.Now()
		var g sync.WaitGroup
		for range 3 {
			g.Go(func() { _ = p.Close() })
		}
		g.Wait()
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Equal(t, 2, s.openNow(), "those in use")
		_, err := p.Get(bg)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, used.Put(), ErrClosed)
		require.ErrorIs(t, used.Put(), ErrReturned)
		require.Equal(t, ReasonClosed, used.Conn.why())
		require.NoError(t, idle.Drop())
		require.Zero(t, s.openNow())
		require.Zero(t, p.Stats().Open)
		p.Reset()
	})
}

func TestResetClosesWhatIsIdleAndTheOthersWhenTheyComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{})
		used := get(t, p)
		getMany(t, p, 2)
		s.set(func() { s.latency = time.Second })
		getMany(t, p, 2)
		begun := make(chan Lease[*fake])
		held := []Lease[*fake]{get(t, p), get(t, p)}
		go func() { begun <- get(t, p) }() // its dial is from before
		synctest.Wait()
		require.NoError(t, held[0].Put())
		s.set(func() { s.latency = 2 * time.Second })
		l := <-begun
		require.Same(t, held[0].Conn, l.Conn, "not the dial")
		p.Reset()
		require.NoError(t, used.Put())
		require.NoError(t, held[1].Put())
		require.NoError(t, l.Put())
		time.Sleep(5 * time.Second)
		require.Zero(t, s.openNow())
		synctest.Wait()
		require.EqualValues(t, len(s.conns), p.Stats().Closed[ReasonReset])
		fresh := get(t, p)
		require.NoError(t, fresh.Put())
		require.Equal(t, 1, p.Stats().Idle)
	})
}

func TestAPanicOfCloseHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGroup(t, nil)
		s := &fakeServer{t: t}
		p, err := New(Config[*fake]{Dial: s.dial, MaxOpen: 1, MaxIdleTime: time.Second, Group: g.Group, Close: func(c *fake, why Reason) {
			s.close(c, why)
			panic("close")
		}})
		require.NoError(t, err)
		require.NoError(t, get(t, p).Drop())
		require.NoError(t, get(t, p).Put())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Zero(t, p.Stats().Open)
		require.NoError(t, get(t, p).Put())
		require.NoError(t, p.Close())
		require.EqualValues(t, 3, p.Stats().Panics)
		require.EqualValues(t, 3, g.panics.Load())
		require.Zero(t, s.openNow())
	})
}

// testGroup is a group with a count of panics.
type testGroup struct {
	*Group
	panics atomic.Int64
}
