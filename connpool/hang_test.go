package connpool

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// hung is the wheel's entry of a worker that hangs.
type hung chan struct{}

func (h hung) due(t *timer) {
	t.Expire()
	<-h
}

// hangs makes connections whose Close returns only after the call of release.
func hangs(s *fakeServer, cfg Config[*fake]) (_ Config[*fake], release func()) {
	gate := make(chan struct{})
	cfg.Dial = s.dial
	cfg.Close = func(c *fake, why Reason) {
		<-gate
		s.close(c, why)
	}
	return cfg, sync.OnceFunc(func() { close(gate) })
}

func TestAHangingCloseCostsNoOtherPoolOfItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGroup(t, nil)
		bad := &fakeServer{t: t}
		cfg, release := hangs(bad, Config[*fake]{Group: g.Group, MaxIdleTime: time.Second})
		p, err := New(cfg)
		require.NoError(t, err)
		defer release()
		good, s := newTestPool(t, Config[*fake]{Group: g.Group, MaxIdleTime: time.Second})
		getMany(t, p, 100) // the wheel has 64 workers
		getMany(t, good, 3)
		pass(time.Second + 2*tick)
		require.Zero(t, s.openNow(), "its idle time is over")
		require.False(t, get(t, good).Reused())

		closed := make(chan struct{})
		go func() {
			g.Close()
			close(closed)
		}()
		synctest.Wait()
		require.ErrorIs(t, get2(good), ErrClosed)
		require.Equal(t, 1, s.openNow(), "the one in use")
		select {
		case <-closed:
			t.Error("Close did not wait")
		default:
		}
		release()
		<-closed
		require.Zero(t, bad.openNow())
	})
}

func get2(p *Pool[*fake]) error {
	_, err := p.Get(bg)
	return err
}

// Get does not rely on somebody else to close a connection in time.
func TestGetJudgesTheIdleTimeByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := NewGroup(wheel.Config{Workers: 2})
		require.NoError(t, err)
		defer g.Close()
		p, s := newTestPool(t, Config[*fake]{Group: g, MaxIdleTime: time.Second})
		h := make(hung)
		for range 2 {
			require.NoError(t, g.wheel.Start(new(timer), h, tick))
		}
		getMany(t, p, 2)
		pass(10 * time.Second)
		require.Equal(t, 2, s.openNow(), "the workers of the wheel hang")
		require.False(t, get(t, p).Reused())
		synctest.Wait()
		require.Equal(t, ReasonIdle, s.conn(0).why())
		require.Equal(t, ReasonIdle, s.conn(1).why())
		close(h)
	})
}

func TestResetAndCloseCloseSideBySide(t *testing.T) {
	for name, end := range map[string]func(*Pool[*fake]){
		"reset": (*Pool[*fake]).Reset,
		"close": func(p *Pool[*fake]) { _ = p.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{t: t}
				p, err := New(Config[*fake]{Dial: s.dial, Close: func(c *fake, why Reason) {
					time.Sleep(100 * ms)
					s.close(c, why)
				}, MaxOpen: 50})
				require.NoError(t, err)
				defer p.Close()
				getMany(t, p, 50)
				begin := time.Now()
				end(p)
				if name == "reset" { // MaxOpen makes them wait, and only for the first closes
					var users sync.WaitGroup
					for range 50 {
						users.Go(func() { _ = get2(p) })
					}
					users.Wait()
				}
				require.Equal(t, 100*ms, time.Since(begin))
			})
		})
	}
}

// The caller's own connection is closed at once, and nobody waits for the closes of others.
func TestNobodyWaitsForTheCloseOfAnotherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{t: t}
		cfg, release := hangs(s, Config[*fake]{
			MaxOpen: 9, MaxIdle: 2, MaxAge: time.Minute, MaxAgeJitter: -1, MaxIdleTime: -1, Check: s.check,
		})
		p, err := New(cfg)
		require.NoError(t, err)
		defer p.Close()
		defer release()
		begin := time.Now()
		getMany(t, p, 3)
		require.Equal(t, Stats{Open: 3, Idle: 2, Closing: 1}, states(p), "Put found one too many")
		s.conn(1).breakNow()
		s.conn(2).breakNow()
		l := get(t, p)
		require.Equal(t, Stats{Open: 4, InUse: 1, Closing: 3}, states(p), "Get found two of no use")
		require.NoError(t, l.Put())
		p.Reset()
		require.Equal(t, Stats{Open: 4, Closing: 4}, states(p))
		require.Zero(t, time.Since(begin))

		require.NoError(t, get(t, p).Put())
		pass(time.Minute - ms) // its age is over now, by ticks
		require.NoError(t, get(t, p).Put())
		pass(time.Second)
		require.False(t, get(t, p).Reused())
		require.Equal(t, Stats{Open: 6, InUse: 1, Closing: 5}, states(p))

		// A context that ends in the moment of the hand-over of a connection of no use.
		ctx, cancel := context.WithCancel(bg)
		var others []Lease[*fake]
		for range 3 {
			others = append(others, get(t, p))
		}
		ended := make(chan error)
		go func() {
			_, err := p.Get(ctx)
			ended <- err
		}()
		synctest.Wait()
		p.mu.Lock()
		at := p.waiters.Front()
		p.answer(at, p.lend(others[0].conn), nil)
		p.gen++
		cancel()
		p.mu.Unlock()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Equal(t, 6, p.Stats().Closing)
		for _, l := range others[1:] {
			_, err := l.Take()
			require.NoError(t, err)
			s.close(l.Conn, ReasonDropped)
		}
	})
}

// states returns how many connections of each state there are.
func states(p *Pool[*fake]) Stats {
	s := p.Stats()
	return Stats{Open: s.Open, Idle: s.Idle, InUse: s.InUse, Closing: s.Closing}
}

func TestClosesOfAPoolAreBoundedAndThoseThatHangHoldUpNoneForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := NewGroup(wheel.Config{Workers: 8})
		require.NoError(t, err)
		defer g.Close()
		s := &fakeServer{t: t}
		gate := make(chan struct{})
		var now, most int
		p, err := New(Config[*fake]{Group: g, Dial: s.dial, MaxIdleTime: -1, Close: func(c *fake, why Reason) {
			s.set(func() { now++; most = max(most, now) })
			if c.broken {
				<-gate
			}
			time.Sleep(10 * ms)
			s.set(func() { now-- })
			s.close(c, why)
		}})
		require.NoError(t, err)
		getMany(t, p, 200)
		p.Reset()
		pass(200 * 10 * ms / 8)
		require.Zero(t, s.openNow())
		require.Equal(t, 8, s.seen(&most))

		getMany(t, p, 17)
		for i := 200; i < 216; i++ { // as old as the last one, and closed before it
			s.conn(i).breakNow()
		}
		p.Reset()
		pass(1900 * ms)
		require.Equal(t, 17, s.openNow())
		require.Equal(t, 17, p.Stats().Closing)
		pass(200 * ms)
		require.Equal(t, 16, s.openNow(), "the last one")
		require.NoError(t, get(t, p).Put())
		p.Reset()
		pass(10 * ms)
		require.Equal(t, 16, s.openNow(), "there is a worker beside those that hang")
		close(gate)
		require.NoError(t, p.Close())
		require.Zero(t, s.openNow())
	})
}

func TestNothingThatHangsInAPoolCostsAnotherPool(t *testing.T) {
	for name, cfg := range map[string]func(hang func()) Config[*fake]{
		"check": func(hang func()) Config[*fake] { // without regard to its context
			return Config[*fake]{MinIdle: 100, Check: func(context.Context, *fake) error { hang(); return nil }}
		},
		"dial": func(hang func()) Config[*fake] {
			return Config[*fake]{MinIdle: 100, Dial: func(context.Context) (*fake, error) { hang(); return nil, errBroken }}
		},
		"report of a panic": func(func()) Config[*fake] {
			return Config[*fake]{MinIdle: 100, Check: func(context.Context, *fake) error { panic("check") }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				hang := func() { <-gate }
				g, err := NewGroup(wheel.Config{OnPanic: func(any, []byte) { hang() }})
				require.NoError(t, err)
				bad := cfg(hang)
				bad.Group, bad.MaxIdleTime = g, time.Second
				_, _ = newTestPool(t, bad)
				good, s := newTestPool(t, Config[*fake]{Group: g, MaxIdleTime: time.Second})
				defer g.Close()
				defer close(gate)
				pass(2 * time.Second)
				getMany(t, good, 3)
				pass(time.Second + 2*tick)
				require.Zero(t, s.openNow())
				require.NoError(t, get(t, good).Put())
				require.NoError(t, good.Close())
			})
		})
	}
}

func TestMinIdleIsFilledThoughCloseHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{t: t}
		cfg, release := hangs(s, Config[*fake]{MinIdle: 3, MaxIdleTime: -1, MaxAge: time.Minute, MaxAgeJitter: -1})
		p, err := New(cfg)
		require.NoError(t, err)
		defer p.Close()
		defer release()
		synctest.Wait()
		p.Reset()
		synctest.Wait()
		require.Equal(t, Stats{Open: 6, Idle: 3, Closing: 3}, states(p))
		pass(time.Minute + 3*tick)
		require.Equal(t, Stats{Open: 9, Idle: 3, Closing: 6}, states(p))
	})
}

// Neither a panic nor runtime.Goexit ends the work in the background.
func TestCloseMayPanicOrEndItsGoroutineInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := NewGroup(wheel.Config{Workers: 1, OnPanic: func(any, []byte) {}})
		require.NoError(t, err)
		defer g.Close()
		s := &fakeServer{t: t}
		p, err := New(Config[*fake]{Group: g, Dial: s.dial, Close: func(c *fake, why Reason) {
			s.close(c, why)
			if c.id%2 == 0 {
				runtime.Goexit()
			}
			panic("close")
		}})
		require.NoError(t, err)
		getMany(t, p, 10)
		p.Reset()
		require.NoError(t, p.Close())
		require.Zero(t, s.openNow())
		require.Zero(t, p.Stats().Open)
		require.EqualValues(t, 5, p.Stats().Panics)
	})
}

// All of it may meet: a Reset from a Close, a Close beside a Reset, and Close twice.
func TestResetAndCloseMayMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{t: t}
		var p *Pool[*fake]
		p, err := New(Config[*fake]{Dial: s.dial, Close: func(c *fake, why Reason) {
			p.Reset()
			time.Sleep(time.Second)
			s.close(c, why)
		}})
		require.NoError(t, err)
		getMany(t, p, 5)
		begin := time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(p.Reset)
			all.Go(func() {
				_ = p.Close()
				if s.openNow() > 0 {
					t.Error("Close did not wait")
				}
			})
		}
		all.Wait()
		require.Equal(t, time.Second, time.Since(begin))
		p.Reset()
		require.NoError(t, p.Close())
		require.Equal(t, time.Second, time.Since(begin))
	})
}

func TestHalfOpenConnectionsFailNoGet(t *testing.T) {
	for _, patience := range []time.Duration{time.Second, 10 * time.Second} {
		t.Run("ctx="+patience.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 20
				p, _ := newTestPool(t, Config[*fake]{MaxOpen: n, Check: func(ctx context.Context, c *fake) error {
					if c.id >= n {
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				}})
				getMany(t, p, n)
				var users sync.WaitGroup
				for range n {
					users.Go(func() {
						ctx, cancel := context.WithTimeout(bg, patience)
						defer cancel()
						if _, err := p.Get(ctx); err != nil {
							t.Error(err)
						}
					})
				}
				users.Wait()
			})
		})
	}
}

// It is the first check that takes too long, and the connections behind it stay for others.
func TestAfterItsTimeForChecksGetTakesWhatComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxOpen: 3, CheckTimeout: 100 * ms, Check: func(ctx context.Context, c *fake) error {
			if c.broken {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}})
		getMany(t, p, 3)
		used := get(t, p)
		s.conn(1).breakNow()
		s.set(func() { s.latency = time.Second })
		time.AfterFunc(300*ms, func() { _ = used.Put() })
		begin := time.Now()
		l := get(t, p)
		require.Same(t, used.Conn, l.Conn, "before the dial, and not the idle one")
		require.Equal(t, 300*ms, time.Since(begin))
		require.Equal(t, Stats{Open: 2, Idle: 1, InUse: 1}, states(p))
		require.Equal(t, 0, get(t, p).Conn.id, "good for the next Get")
	})
}

func TestChecksOfAGetHaveCheckTimeoutTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		check := func(_ context.Context, _ *fake) error {
			time.Sleep(300 * ms)
			return errBroken
		}
		for timeout, want := range map[time.Duration]int{-1: 10, 0: 4, 500 * ms: 2, time.Hour: 10} {
			checks := 0
			p, s := newTestPool(t, Config[*fake]{CheckTimeout: timeout, Check: func(ctx context.Context, c *fake) error {
				checks++
				return check(ctx, c)
			}})
			getMany(t, p, 10)
			require.False(t, get(t, p).Reused())
			require.Equal(t, want, checks, timeout)
			synctest.Wait()
			require.Equal(t, 11-want, s.openNow())
		}

		// The time of a caller is for the dial, too.
		p, _ := newTestPool(t, Config[*fake]{CheckTimeout: time.Hour, Check: func(ctx context.Context, _ *fake) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		getMany(t, p, 1)
		ctx, cancel := context.WithTimeout(bg, 2*time.Second)
		defer cancel()
		begin := time.Now()
		_, err := p.Get(ctx)
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(begin))

		// A context that is over costs no connection.
		getMany(t, p, 1)
		idle := p.Stats().Idle
		over, cancel := context.WithCancel(bg)
		cancel()
		_, err = p.Get(over)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, idle, p.Stats().Idle)
	})
}

func TestChecksInPutAndInTheBackgroundAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, _ *fake) error {
			<-ctx.Done()
			return ctx.Err()
		}
		p, _ := newTestPool(t, Config[*fake]{CheckPut: hang})
		l := get(t, p)
		begin := time.Now()
		require.NoError(t, l.Put())
		require.Equal(t, time.Second, time.Since(begin))
		require.Equal(t, ReasonCheck, l.Conn.why())

		p, s := newTestPool(t, Config[*fake]{MinIdle: 1, MaxIdleTime: time.Second, Check: hang, CheckTimeout: 10 * time.Second})
		pass(time.Second + 2*tick)
		require.Equal(t, 1, p.Stats().InUse)
		pass(10 * time.Second)
		require.Equal(t, ReasonCheck, s.conn(0).why())
		require.Equal(t, 2, s.seen(&s.tries))
	})
}

func TestACheckThatPanicsInGetHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{t: t}
		cfg, release := hangs(s, Config[*fake]{Check: func(context.Context, *fake) error { panic("check") }})
		p, err := New(cfg)
		require.NoError(t, err)
		defer p.Close()
		defer release()
		getMany(t, p, 2)
		for range 2 {
			require.PanicsWithValue(t, "check", func() { _, _ = p.Get(bg) })
		}
		require.Equal(t, Stats{Open: 2, Closing: 2}, states(p))
		_, err = get(t, p).Take()
		require.NoError(t, err)
		s.close(s.conn(2), ReasonDropped)
	})
}
