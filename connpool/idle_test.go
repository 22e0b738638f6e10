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

	"github.com/heartwheel-go/heartwheel/wheel"
)

const tick = 100 * ms

// pass lets time go by, and lets the due work be done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestAnIdleConnectionIsClosedAfterMaxIdleTimeAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxIdleTime: time.Second})
		for i := range 20 {
			pass(time.Duration(i) * 7 * ms) // at another place within the tick
			c := get(t, p)
			pass(5 * time.Second) // in use for longer than it may be idle
			require.NoError(t, c.Put())
			pass(time.Second - 1)
			require.Zero(t, c.Conn.why())
			pass(2*tick + 1)
			require.Equal(t, ReasonIdle, c.Conn.why())
		}
		require.Zero(t, s.openNow())
		require.EqualValues(t, 20, p.Stats().Closed[ReasonIdle])
		require.Zero(t, p.group.Stats().Pending+p.group.Stats().Due)
	})
}

// The wheel hands a connection over. Somebody uses it before due looks at it.
func TestAConnectionThatWasUsedMeanwhileIsNotClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newTestPool(t, Config[*fake]{})
		l := get(t, p)
		l.conn.due(&l.conn.timer)
		require.NoError(t, l.Put())
		l.conn.due(&l.conn.timer)
		require.Same(t, l.Conn, get(t, p).Conn)
	})
}

func TestTheSurplusOfAPeakIdlesOutWhileOneConnectionIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxIdleTime: time.Second})
		getMany(t, p, 10)
		for range 20 {
			pass(tick)
			getMany(t, p, 1)
		}
		require.Equal(t, 1, s.openNow())
		require.Equal(t, 10, s.seen(&s.tries))
	})
}

func TestNegativeMaxIdleTimeIsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxIdleTime: -1})
		getMany(t, p, 3)
		pass(time.Hour)
		require.Equal(t, 3, s.openNow())
	})
}

func TestMinIdleIsFilledAndStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{t: t, latency: 10 * ms}
		p := newPoolOf(t, s, Config[*fake]{MaxIdleTime: time.Second, MinIdle: 3, MaxOpen: 5})
		pass(35 * ms)
		require.Equal(t, Stats{MaxOpen: 5, Open: 3, Idle: 3, Dials: 3}, p.Stats())
		require.Equal(t, 1, s.seen(&s.mostDial), "one at a time")
		pass(time.Minute)
		require.Equal(t, 3, p.Stats().Idle)
		require.Equal(t, 3, s.seen(&s.tries), "the same ones")

		a, b := get(t, p), get(t, p)
		pass(100 * ms)
		require.Equal(t, 3, p.Stats().Idle, "in place of those that were taken")
		require.Equal(t, 5, p.Stats().Open)
		c := get(t, p)
		pass(100 * ms)
		require.Equal(t, 2, p.Stats().Idle, "there may not be more")
		for _, l := range []Lease[*fake]{a, b, c} {
			require.NoError(t, l.Put())
		}
		require.Equal(t, 5, p.Stats().Idle)
		pass(3 * time.Second)
		require.Equal(t, 3, p.Stats().Idle, "the others have idled out")
		require.EqualValues(t, 2, p.Stats().Closed[ReasonIdle])

		require.NoError(t, get(t, p).Drop())
		pass(100 * ms)
		require.Equal(t, 3, p.Stats().Idle)
	})
}

func TestWhatGetTakesFromMinIdleIsReplacedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxIdleTime: -1, MinIdle: 1})
		synctest.Wait()
		for i := range 5 {
			get(t, p)
			synctest.Wait()
			require.Equal(t, 1, p.Stats().Idle)
			require.Equal(t, i+2, s.seen(&s.tries))
		}
	})
}

// During its check, the connection counts for MinIdle. After it, the connection is below
// all connections used since.
func TestWhatStaysForMinIdleIsTheLastChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{t: t, latency: 500 * ms}
		p := newPoolOf(t, s, Config[*fake]{MaxIdleTime: time.Second, MinIdle: 2, CheckAfter: time.Hour, Check: func(context.Context, *fake) error {
			time.Sleep(tick)
			return nil
		}})
		pass(1850 * ms) // one since 0.5s, the other since 1s
		require.Equal(t, 2, p.Stats().Idle)
		require.Equal(t, 1, get(t, p).Conn.id)
		synctest.Wait()
		require.Equal(t, 3, s.seen(&s.tries), "the third now")
	})
}

func TestWhatIsCheckedInTheBackgroundGoesToWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxIdleTime: time.Second, MaxOpen: 2, MinIdle: 1, CheckAfter: time.Hour, Check: func(context.Context, *fake) error {
			time.Sleep(time.Second)
			return nil
		}})
		other := get(t, p)
		synctest.Wait()
		pass(1500 * ms)
		require.Equal(t, Stats{Open: 2, InUse: 2}, Stats{Open: p.Stats().Open, InUse: p.Stats().InUse}, "it is being checked")
		require.NoError(t, other.Drop())
		synctest.Wait()
		require.Equal(t, 2, s.seen(&s.tries), "there will be one idle, when it has been checked")
		other = get(t, p)
		start := time.Now()
		l := get(t, p)
		require.True(t, l.Conn.id < 2 && time.Since(start) < time.Second)
		require.NoError(t, other.Put())
		require.NoError(t, l.Put())
	})
}

func TestThoseThatStayForMinIdleAreCheckedAndReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{t: t}
		p := newPoolOf(t, s, Config[*fake]{MaxIdleTime: time.Second, MinIdle: 2, Check: s.check})
		pass(ms)
		for i := range 5 {
			pass(time.Second + 2*tick)
			require.GreaterOrEqual(t, s.seen(&s.checks), 2*(i+1))
			require.Equal(t, 2, p.Stats().Idle)
		}
		s.conn(0).breakNow()
		pass(time.Second + 3*tick)
		require.Equal(t, ReasonCheck, s.conn(0).why())
		require.Equal(t, 2, p.Stats().Idle)
		require.Equal(t, 3, s.seen(&s.tries))
	})
}

func TestDialsForMinIdlePauseAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{t: t, down: errBroken}
		p := newPoolOf(t, s, Config[*fake]{MinIdle: 2})
		pass(10 * time.Minute)
		at := s.triedAt
		require.Greater(t, len(at), 20)
		require.Less(t, len(at), 60)
		for i := 1; i < len(at); i++ {
			pause := min(maxPause, minPause<<(i-1))
			require.GreaterOrEqual(t, at[i].Sub(at[i-1]), pause/2, i)
			require.LessOrEqual(t, at[i].Sub(at[i-1]), pause+2*tick, i)
		}
		require.Equal(t, 1, p.group.Stats().Pending, "the pause is a timer in the wheel")

		// A Get does not wait for the pause, and a successful dial ends it.
		_, err := p.Get(bg)
		require.ErrorIs(t, err, errBroken)
		s.set(func() { s.down = nil })
		start := time.Now()
		l := get(t, p)
		require.Zero(t, time.Since(start))
		synctest.Wait()
		require.Equal(t, 2, p.Stats().Idle)
		require.Equal(t, 3, p.group.Stats().Pending, "connections, and no pause")
		require.NoError(t, l.Put())
		s.set(func() { s.down = errBroken })
		p.Reset()
		tries := s.seen(&s.tries)
		pass(maxPause / 2)
		require.Greater(t, s.seen(&s.tries), tries+3, "the next pauses are short again")
	})
}

func TestCloseEndsAPauseAndABackgroundDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGroup(t, nil)
		s := &fakeServer{t: t, down: errBroken}
		p := newPoolOf(t, s, Config[*fake]{MinIdle: 1, Group: g.Group})
		pass(time.Minute)
		require.Equal(t, 1, g.Stats().Pending)
		require.NoError(t, p.Close())
		require.Zero(t, g.Stats().Pending)
		tries := s.seen(&s.tries)
		pass(time.Hour)
		require.Equal(t, tries, s.seen(&s.tries))

		s = &fakeServer{t: t, latency: time.Hour}
		q := newPoolOf(t, s, Config[*fake]{MinIdle: 1})
		start := time.Now()
		pass(ms)
		require.NoError(t, q.Close())
		require.Equal(t, ms, time.Since(start))
	})
}

func TestMaxAgeEndsIdleOnesAtOnceAndOthersWhenTheyComeBack(t *testing.T) {
	for _, idle := range []time.Duration{-1, time.Second, 8 * time.Second, time.Minute} {
		t.Run("idle="+idle.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _ := newTestPool(t, Config[*fake]{MaxIdleTime: idle, MaxAge: 10 * time.Second, MaxAgeJitter: -1})
				used, c := get(t, p), get(t, p)
				for range 99 {
					pass(tick)
					require.NoError(t, c.Put())
					again := get(t, p)
					require.Same(t, c.Conn, again.Conn)
					c = again
				}
				require.NoError(t, c.Put())
				pass(tick - 1)
				require.Zero(t, c.Conn.why(), "not before")
				pass(4 * tick)
				require.Equal(t, ReasonMaxAge, c.Conn.why())
				pass(time.Minute)
				require.Zero(t, used.Conn.why())
				require.NoError(t, used.Put())
				require.Equal(t, ReasonMaxAge, used.Conn.why())
				require.Zero(t, p.group.Stats().Pending+p.group.Stats().Due)
			})
		})
	}
}

func TestAgesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxIdleTime: -1, MaxAge: 100 * time.Second, MaxAgeJitter: 0.5})
		getMany(t, p, 200)
		pass(50*time.Second - 1)
		require.Equal(t, 200, s.openNow())
		for i := 1; i <= 4; i++ {
			pass(50 * time.Second / 5)
			require.InDelta(t, 200-40*i, s.openNow(), 35)
		}
		pass(10*time.Second + 4*tick)
		require.Zero(t, s.openNow())
		require.EqualValues(t, 200, p.Stats().Closed[ReasonMaxAge])
	})
}

// MinIdle is no reason to keep a connection beyond its age.
func TestMaxAgeReplacesThoseThatStayForMinIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxIdleTime: 2 * time.Second, MinIdle: 2, MaxAge: 9 * time.Second})
		pass(time.Minute)
		require.Equal(t, 2, s.openNow())
		require.Equal(t, 2, p.Stats().Idle)
		require.GreaterOrEqual(t, s.seen(&s.tries), 12)
		require.LessOrEqual(t, s.seen(&s.tries), 16)
		require.Zero(t, p.Stats().Closed[ReasonIdle])
	})
}

func TestGetChecksWhatHasBeenIdleForCheckAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{t: t}
		p := newPoolOf(t, s, Config[*fake]{MaxIdleTime: time.Minute, Check: s.check, CheckAfter: time.Second})
		getMany(t, p, 3)
		pass(500 * ms)
		getMany(t, p, 3)
		require.Zero(t, s.seen(&s.checks))
		pass(time.Second + 2*tick)
		s.conn(0).breakNow()
		s.conn(1).breakNow()
		l := get(t, p)
		require.Equal(t, 2, l.Conn.id, "the first one that is sound")
		require.Equal(t, 3, s.seen(&s.checks))
		synctest.Wait() // Get waits for no close
		require.Equal(t, ReasonCheck, s.conn(0).why())
		require.Equal(t, ReasonCheck, s.conn(1).why())
		require.EqualValues(t, 7, p.Stats().Gets)
		l.Conn.breakNow()
		require.NoError(t, l.Put())
		require.Equal(t, 2, get(t, p).Conn.id, "it was not idle for long")
	})
}

func TestAConnectionThatFailsItsCheckDoesNotCostTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{t: t}
		var slow time.Duration
		p := newPoolOf(t, s, Config[*fake]{MaxOpen: 1, Check: func(ctx context.Context, c *fake) error {
			time.Sleep(slow)
			return s.check(ctx, c)
		}})
		getMany(t, p, 1)
		s.conn(0).breakNow()
		slow = time.Second
		var order []string
		ask := func(name string) {
			l := get(t, p)
			s.set(func() { order = append(order, name) })
			_ = l.Put()
		}
		go ask("first")
		pass(ms)
		go ask("second")
		pass(ms)
		pass(10 * time.Second)
		require.Equal(t, []string{"first", "second"}, order)
		require.Equal(t, 1, s.seen(&s.mostOpen))
	})
}

func TestACheckThatPanicsOrEndsItsGoroutineCostsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{t: t}
		g := newTestGroup(t, nil)
		bad := func(context.Context, *fake) error { panic("check") }
		var mu sync.Mutex
		var check, checkPut func(context.Context, *fake) error
		with := func(forGet, forPut func(context.Context, *fake) error) {
			mu.Lock()
			defer mu.Unlock()
			check, checkPut = forGet, forPut
		}
		now := func(f *func(context.Context, *fake) error) func(context.Context, *fake) error {
			mu.Lock()
			defer mu.Unlock()
			return *f
		}
		p := newPoolOf(t, s, Config[*fake]{
			Group: g.Group, MaxOpen: 1, MinIdle: 1, MaxIdleTime: time.Second,
			Check:    func(ctx context.Context, c *fake) error { return now(&check)(ctx, c) },
			CheckPut: func(ctx context.Context, c *fake) error { return now(&checkPut)(ctx, c) },
		})
		with(s.check, s.check)
		synctest.Wait()
		with(bad, nil)
		require.PanicsWithValue(t, "check", func() { _, _ = p.Get(bg) })
		synctest.Wait()
		require.Equal(t, ReasonCheck, s.conn(0).why())
		require.Equal(t, 1, p.Stats().Idle)

		with(s.check, bad)
		l := get(t, p)
		require.PanicsWithValue(t, "check", func() { _ = l.Put() })
		require.ErrorIs(t, l.Put(), ErrReturned)
		synctest.Wait()
		require.Equal(t, 1, p.Stats().Idle)

		// In the background, by a worker of the wheel's.
		with(bad, nil)
		pass(time.Second + 2*tick)
		require.EqualValues(t, 1, g.panics.Load())
		require.EqualValues(t, 1, p.Stats().Panics)
		with(func(context.Context, *fake) error { runtime.Goexit(); return nil }, nil)
		pass(time.Second + 2*tick)
		require.EqualValues(t, 4, p.Stats().Closed[ReasonCheck])
		with(s.check, s.check)
		require.NoError(t, get(t, p).Put())
		require.Equal(t, 1, s.openNow())
	})
}

// OnPanic may call the pool, whichever function has panicked.
func TestAPanicIsReportedWithoutALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p atomic.Pointer[Pool[*fake]]
		var told, free atomic.Int64
		g, err := NewGroup(wheel.Config{OnPanic: func(any, []byte) {
			told.Add(1)
			if mu := &p.Load().mu; mu.TryLock() {
				free.Add(1)
				mu.Unlock()
			}
		}})
		require.NoError(t, err)
		defer g.Close()
		s := &fakeServer{t: t}
		made, err := New(Config[*fake]{
			Group: g, MinIdle: 1, MaxIdleTime: time.Second, Dial: s.dial,
			Check: func(context.Context, *fake) error { panic("check") },
			Close: func(c *fake, why Reason) {
				s.close(c, why)
				panic("close")
			},
		})
		require.NoError(t, err)
		p.Store(made)
		pass(time.Second + 2*tick)
		require.EqualValues(t, 2, told.Load())
		require.EqualValues(t, 2, free.Load())
	})
}

func TestPutDropsWhatItsCheckRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{t: t}
		p := newPoolOf(t, s, Config[*fake]{MaxOpen: 1, CheckPut: s.check})
		l := get(t, p)
		l.Conn.breakNow()
		require.NoError(t, l.Put())
		require.Equal(t, ReasonCheck, l.Conn.why())
		require.NoError(t, get(t, p).Put())
		require.Equal(t, 1, p.Stats().Idle)
	})
}

func TestAContextThatEndsInACheckEndsGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{CheckTimeout: -1, Check: func(ctx context.Context, _ *fake) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		getMany(t, p, 3)
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		_, err := p.Get(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		require.Equal(t, 2, s.openNow(), "only the one that was asked")
	})
}

// A hanging check in the background ends with the pool.
func TestCloseEndsABackgroundCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MinIdle: 1, MaxIdleTime: time.Second, CheckTimeout: -1, Check: func(ctx context.Context, _ *fake) error {
			<-ctx.Done()
			return errors.New("hung")
		}})
		pass(time.Hour)
		require.Equal(t, 1, p.Stats().InUse)
		start := time.Now()
		require.NoError(t, p.Close())
		require.Zero(t, time.Since(start))
		require.Zero(t, s.openNow())
	})
}
