package wheel

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func newTestWheel(t testing.TB, cfg Config) *Wheel {
	w, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

func TestFiresNeverEarlyAndAtMostTwoTicksLate(t *testing.T) {
	for _, tick := range []time.Duration{time.Millisecond, 10 * ms, 100 * ms, time.Second} {
		for _, levels := range [][]int{nil, {1}, {10}, {4, 4}} {
			t.Run(fmt.Sprintf("tick=%v/levels=%v", tick, levels), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newTestWheel(t, Config{Tick: tick, Levels: levels})
					fired := make(chan time.Duration, 1)
					for _, phase := range []time.Duration{0, 1, tick / 3, tick - 1} {
						for _, d := range []time.Duration{1, tick - 1, tick, tick + 1, 7*tick - 1, 7 * tick, 100 * tick, 1000*tick + tick/2} {
							time.Sleep(phase)
							start := time.Now()
							w.AfterFunc(d, func() { fired <- time.Since(start) })
							after := <-fired
							require.GreaterOrEqual(t, after, d)
							require.LessOrEqual(t, after, d+2*tick)
						}
					}
				})
			})
		}
	}
}

func TestDelaysOfZeroOrLessFireOnTheNextTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{})
		for _, d := range []time.Duration{0, -1, math.MinInt64} {
			start := time.Now()
			done := make(chan bool)
			w.AfterFunc(d, func() { close(done) })
			<-done
			require.LessOrEqual(t, time.Since(start), 100*ms)
		}
		moved := w.AfterFunc(time.Hour, func() {})
		require.True(t, moved.Move(-5))
		time.Sleep(101 * ms)
		synctest.Wait()
		require.False(t, moved.Touch())
	})
}

func TestTheLongestDelayNeverFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{Levels: []int{16, 4}})
		timer := w.AfterFunc(math.MaxInt64, func() { t.Error("fired") })
		time.Sleep(time.Hour)
		require.True(t, timer.Touch())
		require.Greater(t, timer.left(), 200*365*24*time.Hour)
		require.True(t, remove(timer))
	})
}

func TestTouchedTimerLivesUntilItsDelayHasPassedOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{Tick: 10 * ms})
		var fired atomic.Bool
		timer := w.AfterFunc(time.Second, func() { fired.Store(true) })
		for range 100 {
			time.Sleep(time.Second - 1)
			synctest.Wait()
			require.False(t, fired.Load())
			require.True(t, timer.Touch())
		}
		time.Sleep(time.Second - 1)
		synctest.Wait()
		require.False(t, fired.Load())
		time.Sleep(1 + 20*ms)
		synctest.Wait()
		require.True(t, fired.Load())
		require.False(t, timer.Touch())
		require.False(t, timer.Move(time.Second))
		require.False(t, timer.SetDelay(time.Second))
		require.False(t, remove(timer))
	})
}

func TestMoveIsForOnceAndSetDelayForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{Tick: 10 * ms})
		timer := w.AfterFunc(time.Second, func() {})
		require.True(t, timer.Move(time.Minute))
		require.GreaterOrEqual(t, timer.left(), time.Minute)
		require.True(t, timer.Touch())
		require.InDelta(t, time.Second, timer.left(), float64(20*ms))
		require.True(t, timer.SetDelay(time.Minute))
		time.Sleep(59 * time.Second)
		require.True(t, timer.Touch())
		require.Greater(t, timer.left(), 59*time.Second)
		require.True(t, timer.SetDelay(100*ms))
		time.Sleep(121 * ms)
		synctest.Wait()
		require.False(t, timer.Touch())
	})
}

func TestLeftWhileTheHandSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{Tick: 10 * ms, MaxSleep: 500 * ms})
		timer := w.AfterFunc(time.Minute, func() {})
		time.Sleep(30*time.Second + 490*ms)
		require.InDelta(t, 29*time.Second+510*ms, timer.left(), float64(20*ms))
	})
}

func TestLongDelaysAreRoundedUpByATouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{Tick: time.Millisecond})
		const year = 365*24*time.Hour + time.Millisecond // an odd number of ticks
		timer := w.AfterFunc(year, func() {})
		require.InDelta(t, year, timer.left(), float64(2*ms))
		require.True(t, timer.Touch())
		require.GreaterOrEqual(t, timer.left(), year)
		require.Less(t, timer.left(), year+year>>25)
		require.True(t, timer.Touch())
		require.Less(t, timer.left(), year+year>>25, "rounding must not add up")
	})
}

func TestDueTimerIsSavedUntilItsExpiryIsDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handed := make(chan *TimerOf[string], 1)
		w, err := startDue(Config{Tick: 10 * ms}, func(t *TimerOf[string], v string) {
			if v == "peer" {
				handed <- t
			}
		})
		require.NoError(t, err)
		defer w.Stop()
		timer, err := w.Add("peer", time.Second)
		require.NoError(t, err)

		require.Same(t, timer, <-handed)
		require.Equal(t, 1, w.Stats().Due)
		require.Equal(t, 1, w.Len())
		time.Sleep(time.Minute)
		require.True(t, timer.Touch(), "undecided, so it can be saved")
		_, ok := timer.Expire()
		require.False(t, ok, "the touch has won")
		require.EqualValues(t, 1, w.Stats().Saved)

		require.Same(t, timer, <-handed)
		v, ok := timer.Expire()
		require.True(t, ok)
		require.Equal(t, "peer", v)
		require.False(t, timer.Touch(), "decided")
		_, ok = timer.Expire()
		require.False(t, ok, "once")
		require.Zero(t, w.Len())
		require.EqualValues(t, 1, w.Stats().Expired)
	})
}

func TestPendingTimerCanNotBeExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{})
		timer := w.AfterFunc(time.Second, func() {})
		_, ok := timer.Expire()
		require.False(t, ok)
		require.False(t, timer.Rearm(time.Hour))
		require.False(t, timer.TouchAt(0))
		require.True(t, timer.Touch())
	})
}

// The hand does not wait for a blocking callback. A timer behind it can still be moved and
// removed, with a true answer.
func TestBlockingCallbackHoldsUpNobodyAndCancelsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{Workers: 1})
		release := make(chan bool)
		var order syncList
		w.AfterFunc(time.Second, func() { <-release; order.add("a") })
		b := w.AfterFunc(time.Second, func() { order.add("b") })
		c := w.AfterFunc(time.Second, func() { order.add("c") })
		later := w.AfterFunc(2*time.Second, func() { order.add("later") })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Empty(t, order.all())
		require.Equal(t, 3, w.Stats().Due, "the hand went on")
		require.Equal(t, 3, w.Stats().Backlog)
		require.True(t, remove(b))
		require.True(t, c.Move(10*time.Second))
		close(release)
		synctest.Wait()
		require.Equal(t, []string{"a", "later"}, order.all())
		require.False(t, later.Touch())
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"a", "later", "c"}, order.all())
	})
}

// syncList takes strings from several goroutines.
type syncList struct {
	mu   sync.Mutex
	list []string
}

func (l *syncList) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, s)
}

func (l *syncList) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

func TestPanickingCallbackIsReportedAndLosesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reports []string
		w := newTestWheel(t, Config{Workers: 1, OnPanic: func(v any, stack []byte) {
			reports = append(reports, fmt.Sprint(v))
			require.Contains(t, string(stack), "TestPanickingCallback")
			panic("and the report too")
		}})
		fired := 0
		for i := range 10 {
			w.AfterFunc(time.Second, func() {
				fired++
				switch i {
				case 3:
					panic("three")
				case 5:
					runtime.Goexit()
				}
			})
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 10, fired)
		require.Equal(t, []string{"three"}, reports)
		require.EqualValues(t, 1, w.Stats().Panics)
		w.AfterFunc(time.Second, func() { fired++ })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 11, fired)
	})
}

func TestCallbacksMayCallBackIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{})
		var self, again atomic.Pointer[Timer]
		var count atomic.Int64
		other := w.AfterFunc(time.Hour, func() {})
		self.Store(w.AfterFunc(time.Second, func() {
			require.False(t, self.Load().Touch(), "its own expiry is decided")
			require.False(t, remove(self.Load()))
			require.True(t, other.Move(2*time.Hour))
			require.Equal(t, 1, w.Len())
			_ = w.Stats()
			again.Store(w.AfterFunc(time.Second, func() { count.Add(1); w.Stop() }))
		}))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 1, count.Load())
		require.False(t, again.Load().Touch())
		require.False(t, other.Touch(), "stopped")
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{})
		timer := w.AfterFunc(time.Second, func() { t.Error("ran after Stop") })
		w.Stop()
		w.Stop()
		require.Zero(t, w.Len())
		require.False(t, timer.Touch())
		require.False(t, timer.Move(time.Second))
		require.False(t, remove(timer))
		late := w.AfterFunc(time.Second, func() { t.Error("ran after Stop") })
		require.False(t, late.Touch())
		require.False(t, remove(late))
		_, err := w.Add(func() {}, time.Second)
		require.ErrorIs(t, err, ErrClosed)
		time.Sleep(time.Minute)
	})
}

// The hand looks at the clock when Stop begins.
func TestStopWaitsForTheHand(t *testing.T) {
	w, err := newDue(Config{}, func(*TimerOf[int], int) {})
	require.NoError(t, err)
	looks := make(chan bool)
	var looked atomic.Bool
	begun := time.Now()
	w.begin(func() time.Duration {
		if looked.Load() {
			return time.Since(begun)
		}
		looks <- true
		time.Sleep(50 * ms)
		looked.Store(true)
		return time.Since(begun)
	}, w.asleep)
	<-looks
	w.Stop()
	require.True(t, looked.Load())
}

func TestStopDropsWhatWaitsForAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{Workers: 1})
		release := make(chan bool)
		w.AfterFunc(time.Second, func() { <-release })
		for range 100 {
			w.AfterFunc(time.Second, func() { t.Error("ran after Stop") })
		}
		time.Sleep(2 * time.Second)
		w.Stop() // does not wait for the running function
		close(release)
		synctest.Wait()
		require.Equal(t, Stats{Added: 101, Expired: 1, Tick: 100 * ms, Now: w.Stats().Now, Late: w.Stats().Late, Passes: w.Stats().Passes, Levels: w.Stats().Levels, Units: w.Stats().Units}, w.Stats())
	})
}

func TestAfterStopNothingIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		calls := 0
		w, err := startDue(Config{Workers: 1}, func(*TimerOf[int], int) { calls++; <-release })
		require.NoError(t, err)
		for i := range 10 {
			_, err := w.Add(i, time.Second)
			require.NoError(t, err)
		}
		time.Sleep(3 * time.Second)
		w.Stop()
		require.Zero(t, w.Len())
		close(release)
		synctest.Wait()
		require.Equal(t, 1, calls)
	})
}

// If all workers block, their number grows, up to the limit.
func TestBlockedWorkersGetHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{Workers: 20})
		release := make(chan bool)
		var blocked atomic.Int64
		for range 100 {
			w.AfterFunc(time.Second, func() { blocked.Add(1); <-release })
		}
		time.Sleep(1150 * ms)
		require.LessOrEqual(t, blocked.Load(), int64(max(2, runtime.GOMAXPROCS(0))))
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 20, blocked.Load())
		close(release)
		synctest.Wait()
		require.EqualValues(t, 100, blocked.Load())
	})
}

// More workers would only wait for the lock.
func TestBusyWorkersGetNoHelp(t *testing.T) {
	w, now := newSleepingWheel(t)
	for range 100 {
		_, err := w.Add(1, 10*ms)
		require.NoError(t, err)
	}
	for range 3 {
		*now += 10 * ms
		w.advance()
	}
	require.Equal(t, 100, w.Stats().Due)
	w.mu.Lock()
	w.workers.most, w.workers.running = 20, 2
	for _, tick := range []struct{ took, running int }{{2 * busyWorker, 2}, {2*busyWorker - 1, 4}, {4 * busyWorker, 4}, {0, 8}} {
		w.workers.taken += uint64(tick.took)
		w.help()
		require.Equal(t, tick.running, w.workers.running)
	}
	taken := w.workers.taken
	w.mu.Unlock()
	running := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.workers.running
	}
	require.Eventually(t, func() bool { return running() == 2 }, time.Minute, ms)
	require.Equal(t, taken+100, w.workers.taken)
}

// Functions that block for less than a tick get help too.
func TestSlowCallbacksGetHelp(t *testing.T) {
	for _, block := range []time.Duration{10 * ms, 90 * ms, 150 * ms} {
		synctest.Test(t, func(t *testing.T) {
			w := newTestWheel(t, Config{})
			for range 1000 {
				w.AfterFunc(time.Second, func() { time.Sleep(block) })
			}
			time.Sleep(10 * time.Second)
			require.Zero(t, w.Len())
			require.Less(t, w.Stats().Late.Max, time.Second+20*block)
		})
	}
}

// A timer may be due, saved, and due again many times before a worker takes it up. Then the
// backlog has it once, and not at all after its removal.
func TestBacklogHasEachTimerOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		calls := 0
		w, err := startDue(Config{Workers: 1}, func(timer *TimerOf[int], id int) {
			calls++
			timer.Expire()
			if id == 0 {
				<-release
			}
		})
		require.NoError(t, err)
		defer w.Stop()
		_, err = w.Add(0, time.Second)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		timer, err := w.Add(1, 100*ms)
		require.NoError(t, err)
		for range 1000 {
			time.Sleep(300 * ms)
			require.Equal(t, 1, w.Stats().Backlog)
			require.True(t, timer.Touch())
		}
		_, ok := timer.Remove()
		require.True(t, ok)
		close(release)
		synctest.Wait()
		require.Equal(t, 1, calls)
	})
}

func TestIdleOfADeadlineBeyondTheEndOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{Tick: time.Millisecond})
		timer := w.AfterFunc(math.MaxInt64, func() {})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.True(t, timer.Touch())
		time.Sleep(ms)
		require.LessOrEqual(t, timer.idle(), ms)
		require.Greater(t, timer.left(), 30*365*24*time.Hour)
	})
}

func TestZeroTimerDoesNotRun(t *testing.T) {
	var timer Timer
	require.False(t, timer.Touch())
	require.False(t, timer.Move(time.Second))
	require.False(t, timer.SetDelay(time.Second))
	require.False(t, remove(&timer))
	require.Zero(t, timer.left())
	at, quiet := timer.Touched()
	require.Zero(t, at)
	require.False(t, quiet)
	require.Zero(t, timer.Look())
	require.False(t, timer.Rearm(time.Hour))
	require.False(t, timer.HandOver())
	_, running := timer.Value()
	require.False(t, running)
}

// A worker has the timer when somebody saves it.
func TestTimerSavedAtTheLastMomentDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{})
		ran := 0
		timer := w.AfterFunc(time.Second, func() { ran++ })
		w.funcs.Due(timer, nil)
		require.Zero(t, ran)
		require.True(t, timer.Touch())
	})
}

func TestStartRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{})
		w2 := newTestWheel(t, Config{})
		var timer Timer
		for _, d := range []time.Duration{0, -1} {
			require.ErrorIs(t, w.Start(&timer, nil, d), ErrArgument)
		}
		require.NoError(t, w.Start(new(TimerOf[func()]), func() {}, 1))
		require.NoError(t, w.Start(&timer, func() {}, time.Second))
		require.ErrorIs(t, w.Start(&timer, func() {}, time.Second), ErrArgument)
		require.True(t, remove(&timer))
		require.ErrorIs(t, w2.Start(&timer, func() {}, time.Second), ErrArgument)
		require.ErrorIs(t, w.Start(&timer, func() {}, time.Second), ErrArgument, "a timer runs once")
		require.False(t, timer.Touch())
		require.PanicsWithValue(t, "wheel: AfterFunc with a nil function", func() { w.AfterFunc(1, nil) })
	})
}

func TestConfigErrorsNameTheValueAndTheLimit(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Tick: -1}, "wheel: invalid argument: Tick -1ns, must be at least 1ms"},
		{Config{Tick: 999 * time.Microsecond}, "wheel: invalid argument: Tick 999µs, must be at least 1ms"},
		{Config{Levels: []int{}}, "wheel: invalid argument: Levels is empty, must have at least one level"},
		{Config{Levels: []int{60, 0}}, "wheel: invalid argument: level 1 has 0 slots, must have at least 1"},
		{Config{Levels: []int{-3}}, "wheel: invalid argument: level 0 has -3 slots, must have at least 1"},
		{Config{Levels: []int{1 << 25}}, "wheel: invalid argument: levels [33554432] have more than 16777216 slots"},
		{Config{Levels: []int{1 << 20, 1 << 20}}, "wheel: invalid argument: a revolution of levels [1048576 1048576] is longer than 2147483647 ticks"},
		{Config{Stall: 150 * ms}, "wheel: invalid argument: Stall 150ms, must be at least two ticks (Tick 100ms), or negative for never"},
		{Config{Stall: 1}, "wheel: invalid argument: Stall 1ns, must be at least two ticks (Tick 100ms), or negative for never"},
		{Config{Levels: []int{1 << 24, 1}}, "wheel: invalid argument: levels [16777216 1] have more than 16777216 slots"},
		{Config{MaxSleep: -1}, "wheel: invalid argument: MaxSleep -1ns, must not be negative"},
		{Config{MaxSleep: 400*ms + 1, Levels: []int{4}}, "wheel: invalid argument: MaxSleep 400.000001ms, must be at most 400ms, a revolution of the first level"},
		{Config{MaxSleep: 500*ms + 1}, "wheel: invalid argument: MaxSleep 500.000001ms, must be at most half of Stall 1s"},
		{Config{Workers: -1}, "wheel: invalid argument: Workers -1, must not be negative"},
	} {
		_, err := New(c.cfg)
		require.ErrorIs(t, err, ErrArgument)
		require.EqualError(t, err, c.want)
	}
	_, err := startDue[int](Config{}, nil)
	require.ErrorIs(t, err, ErrArgument)
	for _, cfg := range []Config{
		{Tick: ms},
		{Levels: []int{1 << 24}},
		{Levels: []int{1 << 15, 1 << 15}},
		{Levels: []int{1<<16 - 1, 1 << 15}}, // the last before 2^31
		{Stall: 200 * ms},
		{MaxSleep: 500 * ms},
		{MaxSleep: 400 * ms, Levels: []int{4}},
		{MaxSleep: 51200 * ms, Stall: -1},
	} {
		_, err := cfg.withDefaults()
		require.NoError(t, err)
	}
	for tick, stall := range map[time.Duration]time.Duration{ms: time.Second, 300 * ms: 3 * time.Second} {
		cfg, err := Config{Tick: tick}.withDefaults()
		require.NoError(t, err)
		require.Equal(t, stall, cfg.Stall)
	}
}

func TestPanicsAreLoggedByDefault(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var log bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	cfg, err := Config{}.withDefaults()
	require.NoError(t, err)
	cfg.OnPanic("boom", []byte("somewhere"))
	require.Contains(t, log.String(), `level=ERROR msg="wheel: callback panicked" panic=boom stack=somewhere`)
}

// The hand should have left the tick of a touch long ago. The expiry comes later by as
// much.
func TestLateHandMakesNobodyExpireEarly(t *testing.T) {
	r := newRig(t, 10*ms, nil)
	r.advance(10 * ms)
	early, late := r.add(100*ms), r.add(100*ms)
	r.now += 73 * ms // the hand sleeps, and time goes on
	r.touch(late)
	r.check()
	for range 25 {
		r.advance(5 * ms)
		if m := r.model.timers[late]; m.state == due {
			break
		}
	}
	require.Equal(t, due, r.model.timers[early].state)
	require.Equal(t, due, r.model.timers[late].state)
	require.GreaterOrEqual(t, r.now, 183*ms)
	require.LessOrEqual(t, r.now, 205*ms)
	r.check()
}

func TestTimersThatAreHeldBackExpireWithinTheTick(t *testing.T) {
	r := newRig(t, 10*ms, nil)
	id := r.add(100 * ms)
	r.now = 14 * ms // the hand should have left tick 0 at 10
	r.touch(id)
	r.advance(0)
	for range 10 {
		r.advance(10 * ms)
	}
	require.Equal(t, 114*ms, r.now)
	require.Equal(t, due, r.model.timers[id].state)

	r = newRig(t, 10*ms, nil)
	id = r.add(100 * ms)
	r.now = 14 * ms
	r.touch(id)
	r.advance(0)
	r.advance(6 * ms) // on time from now on
	for range 9 {
		r.advance(10 * ms)
	}
	require.Equal(t, 110*ms, r.now)
	require.Equal(t, pending, r.model.timers[id].state)
	require.Len(t, r.wheel.held.first.timers(nil), 1)
	require.Equal(t, 4*ms, r.wheel.advance(), "the hand comes back for it")
	r.remove(r.add(time.Second))
	r.check()
	r.advance(4 * ms)
	require.Equal(t, due, r.model.timers[id].state)
	r.check()
}

func TestAMillionInOneTick(t *testing.T) {
	const workers = 4
	n := 1_000_000
	if testmain.Race {
		n /= 5
	}
	var fired, running, most atomic.Int64
	w, err := startDue(Config{Tick: 10 * ms, Workers: workers}, func(t *TimerOf[struct{}], _ struct{}) {
		for now, before := running.Add(1), most.Load(); now > before && !most.CompareAndSwap(before, now); {
			before = most.Load()
		}
		if _, ok := t.Expire(); ok {
			fired.Add(1)
		}
		running.Add(-1)
	})
	require.NoError(t, err)
	defer w.Stop()
	before := runtime.NumGoroutine()
	requireFew := func() { // a worker off the count may take a while to end
		require.LessOrEqual(t, runtime.NumGoroutine(), before+100*workers)
	}
	timers := make([]TimerOf[struct{}], n)
	for i := range timers {
		require.NoError(failer{t}, w.Start(&timers[i], struct{}{}, time.Hour))
	}
	for i := range timers {
		if timers[i].Move(20 * ms); i%100 == 0 {
			requireFew()
		}
	}
	for begun := time.Now(); fired.Load() < int64(n); time.Sleep(ms) {
		require.Less(t, time.Since(begun), time.Minute)
		requireFew()
	}
	require.LessOrEqual(t, most.Load(), int64(workers))
	require.Zero(t, w.Len())
}

// 200,000 timers come and go, and leave nothing behind. Moves to an earlier deadline
// leave nothing behind, either.
func TestChurnLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		churn, rounds := 200_000, 100
		if testmain.Race {
			churn, rounds = 20_000, 10
		}
		for _, live := range []int{0, 10_000} {
			w := newTestWheel(t, Config{})
			timers := make([]*Timer, live)
			for i := range timers {
				timers[i] = w.AfterFunc(time.Hour, func() {})
			}
			f := failer{t}
			for i := range churn {
				require.True(f, remove(w.AfterFunc(time.Hour+time.Duration(i%977)*time.Second, func() {})))
			}
			for range rounds {
				for _, timer := range timers {
					require.True(f, timer.Move(time.Minute))
					require.True(f, timer.Touch())
				}
			}
			require.Equal(t, live, w.Len())
			require.LessOrEqual(t, len(w.levels.slots.chunks), live/chunkSize+2*minSpare+len(w.levels.slot))
			w.Stop()
		}
	})
}

func TestRemovedTimerLetsGoOfItsValue(t *testing.T) {
	w, err := startDue(Config{}, func(*TimerOf[*[1 << 20]byte], *[1 << 20]byte) {})
	require.NoError(t, err)
	defer w.Stop()
	var freed atomic.Int64
	for range 10 {
		v := new([1 << 20]byte)
		runtime.AddCleanup(v, func(int) { freed.Add(1) }, 0)
		timer, err := w.Add(v, time.Hour)
		require.NoError(t, err)
		timer.Remove()
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		return freed.Load() == 10
	}, time.Minute, time.Millisecond, "the leftover in the slot must not keep it")
}

func TestStatsOfLateness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWheel(t, Config{Workers: 1})
		w.AfterFunc(time.Second, func() { time.Sleep(300 * ms) })
		w.AfterFunc(time.Second, func() {})
		time.Sleep(3 * time.Second)
		s := w.Stats()
		require.EqualValues(t, 2, s.Expired)
		require.Equal(t, 300*ms, s.Late.Max)
		require.Equal(t, 150*ms, s.Late.Mean())
	})
}

// A touch's answer must hold against the hand, other movers and removers at the same time.
func TestMovesThatReturnTrueHold(t *testing.T) {
	const (
		timeout = 40 * ms
		timers  = 400
	)
	type one struct {
		timer    TimerOf[int]
		promised atomic.Int64 // it must not expire earlier, by the clock
		expired  atomic.Int64 // time of the expiry
		count    atomic.Int64
	}
	all := make([]one, timers)
	start := time.Now()
	w, err := startDue(Config{Tick: ms, Levels: []int{7, 5}}, func(t *TimerOf[int], id int) {
		if _, ok := t.Expire(); ok {
			all[id].expired.Store(int64(time.Since(start)))
			all[id].count.Add(1)
		}
	})
	require.NoError(t, err)
	defer w.Stop()
	for i := range all {
		require.NoError(t, w.Start(&all[i].timer, i, timeout))
	}
	var removed atomic.Int64
	var wg sync.WaitGroup
	// Each timer has one mover, the owner of its promise.
	for m := range 4 {
		wg.Go(func() {
			alive := map[int]bool{}
			for i := m; i < timers; i += 4 {
				alive[i] = true
			}
			for len(alive) > 0 && time.Since(start) < 20*time.Second {
				for i := range alive {
					d := timeout
					switch now := time.Since(start); {
					case i%5 == 0:
						d = 5 * timeout // and shorter the next time
						if now/ms%2 == 0 {
							d = timeout / 2
						}
					case i%7 == 0:
						d = time.Duration(i) * ms / 3
					}
					before := time.Since(start)
					if !all[i].timer.Move(d) {
						delete(alive, i)
						continue
					}
					all[i].promised.Store(int64(before + d))
					if time.Since(start) > 2*time.Second || i%11 == 0 && before > 500*ms {
						delete(alive, i) // falls silent
					}
					if i%97 == 0 && before > time.Second {
						if _, ok := all[i].timer.Remove(); ok {
							removed.Add(1)
						}
					}
				}
				runtime.Gosched()
			}
		})
	}
	stop := make(chan bool)
	var watchers sync.WaitGroup
	for range 2 {
		watchers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for i := 0; i < timers; i += 13 {
					_, _ = all[i].timer.Touched()
					all[i].timer.left()
				}
				_ = w.Stats()
				w.IdleSince(w.Now(), 0)
				time.Sleep(ms)
			}
		})
	}
	wg.Wait()
	close(stop)
	watchers.Wait()
	total := func() int64 {
		sum := removed.Load()
		for i := range all {
			sum += all[i].count.Load()
		}
		return sum
	}
	require.Eventually(t, func() bool { return w.Len() == 0 && total() >= timers }, time.Minute, ms)
	for i := range all {
		require.LessOrEqual(t, all[i].count.Load(), int64(1), "timer %d expired twice", i)
		if all[i].count.Load() == 1 {
			require.GreaterOrEqual(t, all[i].expired.Load(), all[i].promised.Load(), "timer %d", i)
		}
	}
	require.EqualValues(t, timers, total(), "each expires or is removed")
}

// The instant of the deadline is beyond the longest Duration.
func TestRearmForEver(t *testing.T) {
	r := newRig(t, 10*ms, []int{16})
	id := r.add(100 * ms)
	r.now = 3 * ms
	r.advance(28 * ms) // the hand is late
	r.touch(id)
	r.advance(25 * ms)
	require.Positive(t, r.wheel.lag.most)
	timer := r.timers[id]
	for _, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1} {
		require.True(t, timer.HandOver())
		require.True(t, timer.Rearm(d))
	}
	r.wheel.funcs.Limit = nil
	r.now += time.Hour
	r.wheel.advance()
	require.Zero(t, r.wheel.Stats().Due)
}

// A deadline of its own is exact to the tick, however late the hand is.
func TestMoveAndRearmAskTheClock(t *testing.T) {
	for _, at := range []struct {
		now, d time.Duration
		tick   uint64
	}{
		{0, 0, 0},
		{3 * ms, 7 * ms, 1},
		{3 * ms, 7*ms + 1, 2},
		{38 * ms, 0, 4},
		{38 * ms, 2 * ms, 4},
		{38 * ms, 3 * ms, 5},
		{38 * ms, -time.Hour, 4},
	} {
		r := newRig(t, 10*ms, []int{16})
		moved, rearmed := r.timers[r.add(time.Hour)], r.timers[r.add(time.Hour)]
		require.True(t, rearmed.HandOver())
		r.now = at.now
		require.True(t, moved.Move(at.d))
		require.True(t, rearmed.Rearm(r.wheel.Time(0)+max(at.d, 0)))
		for _, timer := range []*TimerOf[int]{moved, rearmed} {
			require.Equal(t, at.tick, timer.dueTick(timer.word.Load()), "%v after %v", at.d, at.now)
		}
		require.Zero(t, r.wheel.Stats().Now)
	}
}
