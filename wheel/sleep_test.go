package wheel

import (
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
	w.advance()
	require.Equal(t, 1, w.dueLen())
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

// newSleepingWheel returns a wheel whose time is the caller's.
func newSleepingWheel(t *testing.T, levels ...int) (*WheelOf[int], *time.Duration) {
	now := new(time.Duration)
	w, err := newDue(Config{Tick: 10 * ms, MaxSleep: 100 * ms, Stall: -1, Levels: levels}, func(*TimerOf[int], int) {})
	require.NoError(t, err)
	w.workers.most = 0
	w.since = func() time.Duration { return *now }
	return w, now
}
