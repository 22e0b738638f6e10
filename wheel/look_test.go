package wheel

import (
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
			touched, gotQuiet, gotDue := timer.Look()
			require.Equal(t, quiet, gotQuiet)
			require.Equal(t, isDue, gotDue)
			require.Equal(t, before, touched)
			return touched
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
		touched, quiet, isDue := timer.Look()
		require.Zero(t, touched)
		require.False(t, quiet || isDue)
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
