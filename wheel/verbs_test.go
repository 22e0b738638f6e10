package wheel

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLookTellsWhatHasHappenedSinceTheLastLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := startDue(Config{}, func(*TimerOf[int], int) {})
		require.NoError(t, err)
		defer w.Stop()
		look := func(timer *TimerOf[int], quiet, isDue bool) time.Duration {
			t.Helper()
			before, _ := timer.Touched()
			saw := timer.Look()
			require.Equal(t, quiet, saw.Quiet)
			require.Equal(t, isDue, saw.IsDue)
			require.Equal(t, before, saw.Touched)
			return saw.Touched
		}
		look(new(TimerOf[int]), false, false)
		timer, err := w.Add(1, time.Minute)
		require.NoError(t, err)
		look(timer, false, false)
		time.Sleep(time.Second)
		look(timer, true, false)
		require.True(t, timer.Touch())
		require.NotZero(t, look(timer, false, false))
		look(timer, true, false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		look(timer, true, true)
		require.True(t, timer.IsDue(), "a look decides nothing")
		_, ok := timer.Expire()
		require.True(t, ok)
		require.Zero(t, timer.Look())
	})
}

// Between a look and the decision a timer may be touched and due again. Then what was seen counts no more.
func TestADecisionByALookIsVoidAfterATouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := startDue(Config{}, func(*TimerOf[int], int) {})
		require.NoError(t, err)
		defer w.Stop()
		timer, err := w.Add(7, time.Minute)
		require.NoError(t, err)
		decide := func(want bool) {
			t.Helper()
			require.True(t, timer.HandOver())
			synctest.Wait()
			timer.Look()
			if !want {
				require.True(t, timer.Touch())
				require.True(t, timer.HandOver())
				synctest.Wait()
			}
		}
		decide(false)
		require.False(t, timer.RearmSeen(w.Time(0)+time.Minute))
		_, ok := timer.ExpireSeen()
		require.False(t, ok)
		require.True(t, timer.IsDue())
		saw := timer.Look()
		require.False(t, saw.Quiet, "the touch still shows")
		require.True(t, timer.RearmSeen(w.Time(0)+time.Minute))
		require.False(t, timer.RearmSeen(w.Time(0)+time.Minute), "not due")
		_, ok = timer.ExpireSeen()
		require.False(t, ok, "not due")
		decide(true)
		v, ok := timer.ExpireSeen()
		require.True(t, ok)
		require.Equal(t, 7, v)
		require.EqualValues(t, 1, w.Stats().Expired)
	})
}

func TestEndedIsCalledOnceForEachTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int64
		w, err := NewOf(Config{}, Funcs[int]{Due: func(timer *TimerOf[int], _ int) { timer.Expire() }, Ended: func() { ended.Add(1) }})
		require.NoError(t, err)
		defer w.Stop()
		timer, err := w.Add(1, time.Second)
		require.NoError(t, err)
		_, ok := timer.Remove()
		require.True(t, ok)
		require.EqualValues(t, 1, ended.Load())
		timer.Remove()
		require.EqualValues(t, 1, ended.Load())
		_, err = w.Add(2, time.Second)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 2, ended.Load())
	})
}

// It dates a touch, but neither into the future nor before the last one.
func TestTouchAtIsASave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := startDue(Config{}, func(*TimerOf[int], int) {})
		require.NoError(t, err)
		defer w.Stop()
		timer, err := w.Add(1, 10*time.Second)
		require.NoError(t, err)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.True(t, timer.IsDue())
		require.True(t, timer.TouchAt(w.Time(0)-5*time.Second))
		require.EqualValues(t, 1, w.Stats().Saved)
		at, _ := timer.Touched()
		require.InDelta(t, 6*time.Second, at, float64(200*time.Millisecond))
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.False(t, timer.IsDue(), "10s after the touch")
		time.Sleep(1200 * time.Millisecond)
		synctest.Wait()
		require.True(t, timer.IsDue())
		require.True(t, timer.TouchAt(0))
		later, _ := timer.Touched()
		require.Equal(t, at, later)
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		require.True(t, timer.IsDue(), "on the next tick")
		require.True(t, timer.TouchAt(w.Time(0)+time.Hour))
		at, _ = timer.Touched()
		require.InDelta(t, w.Time(0), at, float64(200*time.Millisecond), "not in the future")
		require.EqualValues(t, 3, w.Stats().Saved)
	})
}

func TestAnEndedTimerKeepsItsLastTouchAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := startDue(Config{}, func(*TimerOf[int], int) {})
		require.NoError(t, err)
		defer w.Stop()
		for name, end := range map[string]func(*TimerOf[int]) (int, bool){
			"pending, removed": (*TimerOf[int]).Remove,
			"due, removed":     (*TimerOf[int]).Remove,
			"due, expired":     (*TimerOf[int]).Expire,
		} {
			timer, err := w.Add(7, time.Minute)
			require.NoError(t, err)
			time.Sleep(30 * time.Second)
			require.True(t, timer.Touch())
			before, _ := timer.Touched()
			require.GreaterOrEqual(t, before, 30*time.Second)
			if name != "pending, removed" {
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				require.True(t, timer.IsDue())
			}
			v, ok := end(timer)
			require.True(t, ok, name)
			require.Equal(t, 7, v)
			after, quiet := timer.Touched()
			require.InDelta(t, before, after, float64(100*time.Millisecond), "%s: a tick", name)
			require.False(t, quiet, name)
			require.Zero(t, timer.value, "its memory is free")
			require.Error(t, w.Start(timer, 8, time.Minute), "it ended for good: "+name)
			require.False(t, timer.Touch() || timer.Move(time.Hour) || timer.SetDelay(time.Hour) || timer.HandOver() || timer.Rearm(time.Hour), name)
		}
	})
}

func TestATickOfCenturiesIsRefused(t *testing.T) {
	for _, tick := range []time.Duration{maxTick + 1, math.MaxInt64} { // two of the second overflow, too
		_, err := Config{Tick: tick}.withDefaults()
		require.ErrorContains(t, err, "Tick "+tick.String()+", must be at most 256204h46m43.")
	}
	cfg, err := Config{Tick: maxTick}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, 10*time.Duration(maxTick), cfg.Stall)
	_, err = Config{Tick: time.Hour, Levels: []int{1 << 23}, MaxSleep: 2 * time.Hour}.withDefaults()
	require.NoError(t, err, "a revolution is longer than a duration can be")
}

func TestATimerKnowsThatItWasStarted(t *testing.T) {
	w, err := startDue(Config{}, func(*TimerOf[int], int) {})
	require.NoError(t, err)
	defer w.Stop()
	var timer TimerOf[int]
	require.ErrorIs(t, w.Start(&timer, 1, 0), ErrArgument)
	require.False(t, timer.WasStarted(), "it was refused")
	require.NoError(t, w.Start(&timer, 1, time.Hour))
	require.True(t, timer.WasStarted())
	timer.Remove()
	require.True(t, timer.WasStarted())
}

func TestHandOverIdleLeavesATouchedTimerItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handed := make(chan time.Duration, 1)
		var w *WheelOf[int]
		w, err := startDue(Config{}, func(timer *TimerOf[int], _ int) { timer.Expire(); handed <- w.Time(0) })
		require.NoError(t, err)
		defer w.Stop()
		timer, err := w.Add(1, time.Hour)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		looked := w.Time(0)
		require.True(t, timer.Move(time.Second))
		require.False(t, timer.HandOverIdle(looked-1), "moved since")
		require.False(t, timer.IsDue())
		require.InDelta(t, looked+time.Second, <-handed, 2e8)

		timer, err = w.Add(2, time.Hour)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		at, _ := timer.Touched()
		require.False(t, timer.HandOverIdle(at-1))
		require.True(t, timer.HandOverIdle(at))
		require.Equal(t, w.Time(0), <-handed)
		require.False(t, timer.HandOverIdle(w.Time(0)), "ended")
	})
}

func TestHandOverIsAtOnceAndNotAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handed atomic.Int64
		w, err := startDue(Config{}, func(*TimerOf[int], int) { handed.Add(1) })
		require.NoError(t, err)
		timer, err := w.Add(1, time.Hour)
		require.NoError(t, err)
		other, err := w.Add(2, time.Hour)
		require.NoError(t, err)
		require.True(t, timer.HandOver())
		synctest.Wait() // no time passes
		require.EqualValues(t, 1, handed.Load())
		require.False(t, timer.HandOver(), "it was handed over")
		w.Stop()
		require.False(t, other.HandOver())
		require.False(t, other.IsDue())
	})
}

// A timer at its limit waits for a worker. A touch on each tick leaves it there, and what was seen is seen anew.
func TestATouchDoesNotPutOffALimit(t *testing.T) {
	var now time.Duration
	limit := 100 * ms
	w, err := newOf(Config{Tick: 10 * ms, Stall: -1}, Funcs[int]{
		Due:   func(*TimerOf[int], int) {},
		Limit: func(int) time.Duration { return limit },
	})
	require.NoError(t, err)
	w.workers.most = 0
	w.since = func() time.Duration { return now }
	timer, err := w.Add(1, 50*ms)
	require.NoError(t, err)
	for now < 100*ms {
		now += 10 * ms
		require.True(t, timer.Touch())
		w.advance()
	}
	require.True(t, timer.IsDue())
	for _, touch := range []func() bool{timer.Touch, timer.Touch, func() bool { return timer.Move(time.Hour) }, timer.Touch} {
		timer.Look()
		now += 10 * ms
		w.advance()
		require.True(t, touch())
		require.True(t, timer.IsDue())
	}
	require.Zero(t, w.Stats().Saved)
	got, _, ok := w.takeUp()
	require.True(t, ok)
	require.Same(t, timer, got)
	saw := timer.Look()
	require.False(t, saw.Quiet)
	require.Equal(t, now, saw.From)

	require.True(t, timer.Touch())
	require.False(t, timer.IsDue(), "the worker's decision is void, so another one is needed")
	now += 10 * ms
	w.advance()
	require.True(t, timer.IsDue())

	limit = math.MaxInt64
	require.True(t, timer.Touch())
	require.False(t, timer.IsDue(), "only its silence made it due")
}

func TestSinceTouchIsExactToATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := startDue(Config{Tick: time.Second}, func(*TimerOf[int], int) {})
		require.NoError(t, err)
		defer w.Stop()
		var timer TimerOf[int]
		require.Zero(t, timer.SinceTouch(), "never started")
		time.Sleep(time.Minute)
		w.Now()
		require.NoError(t, w.Start(&timer, 1, time.Hour))
		for _, silence := range []time.Duration{0, time.Second, 90 * time.Second} {
			require.True(t, timer.Touch())
			time.Sleep(silence)
			w.Now()
			require.InDelta(t, silence, timer.SinceTouch(), float64(time.Second))
		}
		timer.Remove()
		time.Sleep(time.Second)
		w.Now()
		require.InDelta(t, 91*time.Second, timer.SinceTouch(), float64(time.Second), "ended")
	})
}
