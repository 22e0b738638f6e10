package connpool

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// leaks are the reports of a pool.
type leaks struct {
	mu  sync.Mutex
	all []Leak[*fake]
}

func (l *leaks) add(k Leak[*fake]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, k)
}

// take returns the reports since the last call.
func (l *leaks) take() []Leak[*fake] {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// newLeakPool makes a pool with a LeakAfter of a second.
func newLeakPool(t *testing.T, cfg Config[*fake]) (*Pool[*fake], *fakeServer, *leaks) {
	var l leaks
	cfg.LeakAfter = time.Second
	if cfg.OnLeak == nil {
		cfg.OnLeak = l.add
	}
	p, s := newTestPool(t, cfg)
	return p, s, &l
}

// forgetful is a user of the pool.
//
//go:noinline
func forgetful(t *testing.T, p *Pool[*fake]) Lease[*fake] {
	l, err := p.Get(bg)
	require.NoError(t, err)
	return l
}

func TestALeaseThatIsOutForTooLongIsReportedOnceWithTheStackOfItsGet(t *testing.T) {
	for name, end := range map[string]func(l Lease[*fake]) error{
		"put":  Lease[*fake].Put,
		"drop": Lease[*fake].Drop,
		"take": func(l Lease[*fake]) error {
			c, err := l.Take()
			c.server.close(c, ReasonDropped)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _, told := newLeakPool(t, Config[*fake]{})
				for i := range 3 {
					pass(time.Duration(i) * 17 * ms) // at another place within the tick
					l := forgetful(t, p)
					pass(time.Second - 1)
					require.Empty(t, told.take(), "early")
					pass(2*tick + 1)
					all := told.take()
					require.Len(t, all, 1)
					require.Same(t, l.Conn, all[0].Conn)
					require.False(t, all[0].Returned)
					require.GreaterOrEqual(t, all[0].Out, time.Second)
					require.LessOrEqual(t, all[0].Out, time.Second+2*tick)
					require.Regexp(t, `^[^\n]*/connpool\.forgetful\(\)\n\t[^\n]*/leak_test\.go:\d+\n`, all[0].Stack)
					require.Contains(t, all[0].Stack, t.Name()[:20])
					require.Equal(t, 1, p.Stats().Leaking)

					l.conn.loan.due(&l.conn.loan.timer) // another worker
					pass(5 * time.Second)
					require.Empty(t, told.take(), "once")
					require.Zero(t, l.Conn.why(), "it is still in use")
					require.NoError(t, end(l))
					back := told.take()
					require.Len(t, back, 1)
					require.Equal(t, Leak[*fake]{
						Conn: l.Conn, Out: 6*time.Second + 2*tick, Returned: true, Stack: all[0].Stack,
					}, back[0])
					require.ErrorIs(t, end2(l), ErrReturned)
					require.Empty(t, told.take())
					require.Zero(t, p.Stats().Leaking)
					require.EqualValues(t, i+1, p.Stats().Leaks)
				}
			})
		})
	}
}

func end2(l Lease[*fake]) error { return l.Put() }

func TestALeaseThatComesBackInTimeIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s, told := newLeakPool(t, Config[*fake]{MaxIdleTime: -1})
		for i := range 100 {
			l := get(t, p)
			pass(time.Second - time.Duration(i)*7*ms - 1)
			require.NoError(t, l.Put())
			pass(time.Duration(i%5) * 400 * ms) // idle for a while, also for longer than LeakAfter
		}
		require.Empty(t, told.take())
		require.Equal(t, 1, s.seen(&s.tries))

		// Somebody has it before due looks at it.
		l := get(t, p)
		l.conn.loan.due(&l.conn.loan.timer)
		require.NoError(t, l.Put())
		l.conn.loan.due(&l.conn.loan.timer)
		require.Empty(t, told.take())
	})
}

// Its stack is the waiter's, not of whoever puts the connection back, and the wait does not count.
func TestALeaseOfAWaitingGetIsReportedWithTheWaitersStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, told := newLeakPool(t, Config[*fake]{MaxOpen: 1})
		first := get(t, p)
		second := make(chan Lease[*fake])
		go func() { second <- forgetful(t, p) }()
		pass(900 * ms)
		require.NoError(t, first.Put())
		l := <-second
		pass(time.Second - 1)
		require.Empty(t, told.take())
		pass(2 * tick)
		all := told.take()
		require.Len(t, all, 1)
		require.True(t, strings.Contains(all[0].Stack, "connpool.forgetful()"), all[0].Stack)
		require.NoError(t, l.Put())
	})
}

func TestWhatIsNotOutIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context, *fake) error { time.Sleep(5 * time.Second); return nil }
		p, s, told := newLeakPool(t, Config[*fake]{
			MinIdle: 2, MaxIdleTime: 10 * time.Second, Check: slow, CheckPut: slow, CheckTimeout: time.Minute,
		})
		pass(30 * time.Second)
		l := get(t, p) // after a check
		require.NoError(t, l.Put())
		ctx, cancel := context.WithTimeout(bg, 3*time.Second)
		defer cancel()
		l, err := p.Get(ctx) // its check hangs
		require.NoError(t, err)
		require.NoError(t, l.Put())
		pass(time.Minute)
		require.Empty(t, told.take())
		require.NotZero(t, s.openNow())
		require.NoError(t, p.Close())
		pass(5 * time.Second) // for a check under way
	})
}

// Nobody waits for a report. One hangs and another has not begun: the returns are told after them.
func TestOnLeakMayHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := NewGroup(wheel.Config{Workers: 1})
		require.NoError(t, err)
		defer g.Close()
		gate := make(chan struct{})
		var told leaks
		p, _, _ := newLeakPool(t, Config[*fake]{Group: g, OnLeak: func(l Leak[*fake]) {
			<-gate
			told.add(l)
		}})
		a, b, out := get(t, p), get(t, p), get(t, p)
		pass(1500 * ms)
		require.Equal(t, 3, p.Stats().Leaking)
		require.NoError(t, a.Put())
		require.NoError(t, b.Put())
		require.NoError(t, get(t, p).Put())
		require.Equal(t, 1, p.Stats().Leaking)
		require.EqualValues(t, 3, p.Stats().Leaks)
		require.Empty(t, told.take())
		close(gate)
		of := map[*fake][]bool{}
		for _, l := range told.take() {
			of[l.Conn] = append(of[l.Conn], l.Returned)
		}
		require.Equal(t, map[*fake][]bool{a.Conn: {false, true}, b.Conn: {false, true}, out.Conn: {false}}, of)
		require.NoError(t, out.Put())
		require.Len(t, told.take(), 1)
	})
}

func TestOnLeakMayPanicEndItsGoroutineOrCallThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGroup(t, nil)
		var p *Pool[*fake]
		calls := 0
		p, _, _ = newLeakPool(t, Config[*fake]{Group: g.Group, OnLeak: func(l Leak[*fake]) {
			calls++
			_ = p.Stats()
			p.Reset()
			if l.Returned {
				runtime.Goexit()
			}
			panic("leak")
		}})
		l := get(t, p)
		pass(2 * time.Second)
		require.EqualValues(t, 1, g.panics.Load())
		require.EqualValues(t, 1, p.Stats().Panics)
		require.NoError(t, l.Put())
		synctest.Wait()
		require.Equal(t, 2, calls)
		require.Equal(t, ReasonReset, l.Conn.why())
		l = get(t, p)
		pass(2 * time.Second)
		require.Equal(t, 3, calls)
		require.NoError(t, l.Drop())
	})
}

func TestWithoutOnLeakALineIsLogged(t *testing.T) {
	var lines bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&lines, nil)))
	synctest.Test(t, func(t *testing.T) {
		p, _ := newTestPool(t, Config[*fake]{LeakAfter: time.Second})
		l := forgetful(t, p)
		pass(2 * time.Second)
		require.NoError(t, l.Put())
		synctest.Wait()
	})
	out := strings.Split(lines.String(), "\n")
	require.Len(t, out, 3)
	require.Contains(t, out[0], `level=WARN msg="connpool: lease is out for longer than LeakAfter" out=1.1s`)
	require.Contains(t, out[0], "forgetful")
	require.Contains(t, out[1], `level=INFO msg="connpool: lease has come back after its report" out=2s`)
}

func TestAStackIsCutOffAfter32Frames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, told := newLeakPool(t, Config[*fake]{})
		var deep func(n int) Lease[*fake]
		deep = func(n int) Lease[*fake] {
			if n > 0 {
				return deep(n - 1)
			}
			return forgetful(t, p)
		}
		l := deep(100)
		pass(2 * time.Second)
		all := told.take()
		require.Len(t, all, 1)
		require.Equal(t, 64, strings.Count(all[0].Stack, "\n"))
		require.NoError(t, l.Put())
	})
}

// Without LeakAfter there is no second timer and nothing to allocate.
func TestLeakReportsCostNothingUnlessAsked(t *testing.T) {
	for after, want := range map[time.Duration]int{0: 1, time.Hour: 2} {
		p, _ := newTestPool(t, Config[*fake]{LeakAfter: after})
		getMany(t, p, 1)
		require.EqualValues(t, want, p.group.Stats().Pending)
		allocs := testing.AllocsPerRun(1000, func() {
			l, err := p.Get(bg)
			if err == nil {
				err = l.Put()
			}
			if err != nil {
				t.Error(err)
			}
		})
		require.EqualValues(t, want-1, allocs)
		require.NoError(t, p.Close())
		require.Zero(t, p.group.Stats().Pending)
	}
}
