package wheel

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// With one level, an entry stands in an earlier slot than that of its deadline.
func TestMoveWakesASleepingHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := New(Config{Tick: 10 * ms, MaxSleep: 500 * ms, Levels: []int{60}})
		require.NoError(t, err)
		defer w.Stop()
		time.Sleep(15 * ms) // the hand sleeps until 510ms
		fired := make(chan time.Time, 1)
		timer := w.AfterFunc(620*ms, func() { fired <- time.Now() })
		begun := time.Now()
		timer.Move(50 * ms)
		require.LessOrEqual(t, (<-fired).Sub(begun), 70*ms)
	})
}

func TestIdleWheelSleeps(t *testing.T) {
	w, now := newSleepingWheel(t)
	_, err := w.Add(1, time.Hour)
	require.NoError(t, err)
	require.Equal(t, 100*ms, w.advance())
	_, err = w.Add(2, 35*ms)
	require.NoError(t, err)
	require.Equal(t, 50*ms, w.wake, "somebody is due before")
	*now = 50 * ms
	require.Equal(t, 10*ms, w.advance(), "the first tick was left late, so a touch may have come later")
	*now = 90 * ms
	require.Equal(t, 10*ms, w.advance(), "workers may need help")
	require.Equal(t, 1, w.Stats().Due)
}

// A touched timer is filed again before its tick, and wakes nobody.
func TestTouchedTimersDoNotWakeTheHand(t *testing.T) {
	w, now := newSleepingWheel(t)
	for *now < 10*time.Second {
		if *now < 5*time.Second {
			_, err := w.Add(1, 2*time.Second)
			require.NoError(t, err)
		}
		require.Equal(t, 100*ms, w.advance())
		for timer := range w.All() {
			require.True(t, timer.Touch())
		}
		*now += 100 * ms
	}
}

// The hand looks ahead, and lets others have the lock meanwhile.
func TestRemovingFromASlotAheadLeavesAGap(t *testing.T) {
	var w *WheelOf[int]
	var timers []*TimerOf[int]
	remove := false
	w, err := newOf(Config{Tick: 10 * ms, MaxSleep: 100 * ms}, Funcs[int]{
		Due: func(*TimerOf[int], int) {},
		Limit: func(int) time.Duration {
			if remove { // as Remove does
				w.levels.slots.remove(timers[len(timers)-1], w.hand)
			}
			remove = false
			return math.MaxInt64
		},
	})
	require.NoError(t, err)
	w.since = func() time.Duration { return 0 }
	for range 2 * chunkSize {
		timer, err := w.Add(1, 40*ms)
		require.NoError(t, err)
		timers = append(timers, timer)
	}
	remove = true
	w.advance()
	require.ElementsMatch(t, timers[:len(timers)-1], w.levels.slotOf(5).first.timers(nil))
}

func TestStartAsksTheClockWhileTheHandSleeps(t *testing.T) {
	w, now := newSleepingWheel(t)
	*now = 55 * ms
	timer, err := w.Add(1, 100*ms)
	require.NoError(t, err)
	require.EqualValues(t, 5, touchedTick(timer.word.Load()))
}

// A crowd due at the end of a block moves down first, and then a timer due on its first tick.
// It must be in place before the hand goes to sleep beyond this tick.
func TestTheHandDoesNotSleepBeyondABlockOnItsWayDown(t *testing.T) {
	for offset := range 10 {
		w, now := newSleepingWheel(t, 16, 16)
		*now = time.Duration(offset) * 10 * ms
		w.advance()
		add := func(dueAt time.Duration) *TimerOf[int] {
			timer, err := w.Add(1, time.Second)
			require.NoError(t, err)
			require.True(t, timer.Move(dueAt-*now))
			return timer
		}
		for range 16 * chunkSize {
			add(480*ms + 150*ms)
		}
		timer := add(480 * ms)
		for wait := w.advance(); !timer.IsDue(); wait = w.advance() {
			*now += wait
			require.LessOrEqual(t, *now, 480*ms, "offset %d", offset)
		}
	}
}

// A touch that was dated by a stale tick came later than TouchAt says.
func TestTouchAtKeepsALaterTouch(t *testing.T) {
	w, now := newSleepingWheel(t)
	timer, err := w.Add(1, 100*ms)
	require.NoError(t, err)
	*now = 95 * ms
	require.True(t, timer.Touch()) // dated 0
	*now = 100 * ms
	w.advance()
	require.True(t, timer.HandOver())
	takeUpAll(w)
	require.True(t, timer.TouchAt(35*ms))
	for !timer.IsDue() {
		*now += ms
		w.advance()
	}
	require.GreaterOrEqual(t, *now, 195*ms)
}

// Whoever publishes a tick is descheduled between two looks at the clock.
func TestSlowLookAtTheClockMakesNobodyLate(t *testing.T) {
	w, now := newSleepingWheel(t)
	*now = 100 * ms
	looks := 0
	w.since = func() time.Duration {
		at := *now
		if looks++; looks == 1 {
			*now += 60 * ms
		}
		return at
	}
	w.look(0)
	*now += 8 * ms
	require.Equal(t, 160*ms, w.Now())
}

// The process is stopped between two looks at the clock.
func TestAStallWithinALookIsTold(t *testing.T) {
	now := time.Duration(0)
	w, err := newDue(Config{Tick: 10 * ms, MaxSleep: 100 * ms}, func(*TimerOf[int], int) {})
	require.NoError(t, err)
	w.since = func() time.Duration {
		at := now
		if now == 100*ms {
			now += time.Minute
		}
		return at
	}
	w.look(0)
	require.Zero(t, w.Lost())
	now = 100 * ms
	_, _, stalled := w.look(0)
	require.Equal(t, time.Minute-100*ms, stalled)
	_, _, stalled = w.look(0)
	require.Zero(t, stalled)
	require.Equal(t, time.Minute, w.Lost())
	now += 500 * ms
	w.look(time.Hour)
	require.Equal(t, time.Hour+time.Minute+500*ms, w.Lost(), "with what was left out of the time, and the suspend")
}

// newSleepingWheel returns a wheel whose time is the caller's.
func newSleepingWheel(t *testing.T, levels ...int) (*WheelOf[int], *time.Duration) {
	now := new(time.Duration)
	w, err := newDue(Config{Tick: 10 * ms, MaxSleep: 100 * ms, Stall: -1, Levels: levels}, func(*TimerOf[int], int) {})
	require.NoError(t, err)
	w.workers.most = 0
	w.since = func() time.Duration { return *now }
	return w, now
}
