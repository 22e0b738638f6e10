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
