package wheel

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// jumpable is a clock with jumps, as after SIGSTOP or on a resumed machine. A second clock
// is ahead of it by the sleep of the machine.
type jumpable struct {
	start time.Time
	jump  atomic.Int64
	nap   atomic.Int64
}

func (c *jumpable) since() time.Duration {
	return time.Since(c.start) + time.Duration(c.jump.Load())
}

func (c *jumpable) boottime() time.Duration { return c.since() + time.Duration(c.nap.Load()) }

func (c *jumpable) asleep() time.Duration { return c.boottime() - c.since() }

// jumpBy makes the clock jump, between two looks at it.
func (c *jumpable) jumpBy(d time.Duration) {
	synctest.Wait() // not between the two looks of one tick
	c.jump.Add(int64(d))
}

// napBy makes the machine sleep, between two looks at the clock.
func (c *jumpable) napBy(d time.Duration) {
	synctest.Wait()
	c.nap.Add(int64(d))
}

func newJumpingWheel(t *testing.T, cfg Config, due func(*TimerOf[int], int)) (*WheelOf[int], *jumpable) {
	clock := &jumpable{start: time.Now()}
	clock.nap.Store(int64(time.Hour)) // before the wheel was made
	w, err := newDue(cfg, due)
	require.NoError(t, err)
	w.begin(clock.since, clock.asleep)
	t.Cleanup(w.Stop)
	return w, clock
}

func TestStallKillsNobodyWhoTouchesAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var expired [1000]atomic.Int64 // when
		var lost atomic.Int64
		w, clock := newJumpingWheel(t,
			Config{OnStall: func(d time.Duration) { lost.Add(int64(d)) }},
			func(t *TimerOf[int], id int) {
				if _, ok := t.Expire(); ok {
					expired[id].Store(int64(time.Since(start)))
				}
			})
		const timeout = 10 * time.Second
		timers := make([]*TimerOf[int], 1000)
		for i := range timers {
			timers[i], _ = w.Add(i, timeout)
			time.Sleep(5 * ms)
		}
		time.Sleep(4900 * ms) // the first has 100ms left
		before := time.Since(start)
		clock.jumpBy(60 * time.Second)
		// Their heartbeats were waiting; it takes half a second to read them.
		for i := range timers {
			if i%2 == 0 {
				require.True(t, timers[i].Touch(), "timer %d", i)
			}
			time.Sleep(ms / 2)
		}
		for i := range expired {
			require.Zero(t, expired[i].Load())
		}
		require.Equal(t, 60*time.Second, time.Duration(lost.Load()))
		require.EqualValues(t, 1, w.Stats().Stalls)
		require.EqualValues(t, lost.Load(), w.Stats().Stalled)

		// The silent half has its rest from before the stall, and a second.
		time.Sleep(timeout / 2)
		for i := range timers {
			when := time.Duration(expired[i].Load())
			if i%2 == 0 {
				require.Zero(t, when, "timer %d", i)
				continue
			}
			left := time.Duration(i)*5*ms + 100*ms
			if left+1200*ms < timeout/2 {
				require.GreaterOrEqual(t, when-before, left)
				require.LessOrEqual(t, when-before, left+1400*ms)
			}
		}
	})
}

func TestGapShorterThanAStallCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, clock := newJumpingWheel(t, Config{}, func(t *TimerOf[int], _ int) { t.Expire() })
		timer, err := w.Add(0, time.Second)
		require.NoError(t, err)
		time.Sleep(150 * ms)
		clock.jumpBy(900 * ms)
		time.Sleep(160 * ms)
		synctest.Wait()
		require.False(t, timer.Touch())
		require.Zero(t, w.Stats().Stalls)
	})
}

// However little was left before the stall, there is a second to read the bytes of the time
// meanwhile.
func TestNothingExpiresInTheGrace(t *testing.T) {
	for _, left := range []time.Duration{0, 50 * ms, 90 * ms, 110 * ms, 190 * ms} {
		synctest.Test(t, func(t *testing.T) {
			var expired atomic.Bool
			w, clock := newJumpingWheel(t, Config{}, func(t *TimerOf[int], _ int) {
				t.Expire()
				expired.Store(true)
			})
			time.Sleep(ms)
			_, err := w.Add(1, 10*time.Second)
			require.NoError(t, err)
			time.Sleep(10*time.Second - left)
			clock.jumpBy(time.Minute)
			time.Sleep(time.Second)
			require.False(t, expired.Load(), "left %v", left)
			time.Sleep(300*ms + left)
			require.True(t, expired.Load(), "left %v", left)
		})
	}
}

// The clock stands still while the machine is suspended. The peers' bytes of this time are
// read after it, as after any other stall.
func TestSuspendKillsNobodyWhoTouchesAfterIt(t *testing.T) {
	for _, tt := range []struct {
		stall   time.Duration
		credits bool
	}{{0, true}, {-1, false}} {
		t.Run(fmt.Sprintf("stall=%d", tt.stall), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var expired atomic.Bool
				var lost atomic.Int64
				w, clock := newJumpingWheel(t,
					Config{Stall: tt.stall, OnStall: func(d time.Duration) { lost.Add(int64(d)) }},
					func(t *TimerOf[int], _ int) { t.Expire(); expired.Store(true) })
				timer, err := w.Add(1, 10*time.Second)
				require.NoError(t, err)
				time.Sleep(9950 * ms)
				require.Zero(t, w.Stats().Stalls, "what it slept before the start")

				clock.napBy(time.Minute)
				time.Sleep(time.Second)
				require.Equal(t, tt.credits, timer.Touch())
				if !tt.credits {
					require.Zero(t, w.Stats().Stalls)
					return
				}
				require.Equal(t, time.Minute, time.Duration(lost.Load()))
				require.EqualValues(t, 1, w.Stats().Stalls)
				require.Equal(t, time.Minute, w.Stats().Stalled)

				time.Sleep(10 * time.Second)
				require.False(t, expired.Load())
				time.Sleep(300 * ms)
				require.True(t, expired.Load())
				require.EqualValues(t, 1, w.Stats().Stalls)
			})
		})
	}
}

// An age is measured by a clock that stood still, too.
func TestWhatTheMachineSleptIsInNoAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, clock := newJumpingWheel(t, Config{}, func(*TimerOf[int], int) {})
		time.Sleep(10*time.Second + 50*ms)
		clock.napBy(time.Minute)
		time.Sleep(5 * time.Second)
		const left = 100*ms + time.Second // the tick and the grace
		require.Equal(t, 2*time.Second, w.Time(0)-w.Time(2*time.Second))
		require.Equal(t, 14*time.Second-left, w.Time(0)-w.Time(14*time.Second))
		require.Equal(t, 15050*ms-left, w.Time(0)-w.Time(15050*ms))
	})
}

func TestASecondStallHasAGraceOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var expired atomic.Bool
		var reported sync.Map // by the order of calls
		var calls atomic.Int64
		w, clock := newJumpingWheel(t,
			Config{OnStall: func(d time.Duration) { reported.Store(calls.Add(1), d) }},
			func(t *TimerOf[int], _ int) { t.Expire(); expired.Store(true) })
		_, err := w.Add(1, 10*time.Second)
		require.NoError(t, err)
		time.Sleep(9950 * ms)
		clock.jumpBy(time.Minute)
		time.Sleep(400 * ms)
		clock.jumpBy(time.Minute)
		time.Sleep(time.Second)
		require.False(t, expired.Load())
		time.Sleep(5 * time.Second)
		require.True(t, expired.Load())
		require.EqualValues(t, 2, calls.Load(), "each is counted once")
		for i := range calls.Load() {
			d, _ := reported.Load(i + 1)
			require.Equal(t, time.Minute, d)
		}
		require.EqualValues(t, 2, w.Stats().Stalls)
		require.Equal(t, 2*time.Minute, w.Stats().Stalled)
	})
}

// The process is stopped after the hand has read the clock for the tick, and before it
// reads the clock again for the lag.
func TestStallWithinTheHandsWaking(t *testing.T) {
	now := time.Duration(0)
	reads, expired := 0, false
	w, err := newDue(Config{}, func(t *TimerOf[int], _ int) { t.Expire(); expired = true })
	require.NoError(t, err)
	w.workers.most = 0
	w.since = func() time.Duration {
		at := now
		if reads++; reads == 1 {
			now += time.Hour
		}
		return at
	}
	now = 100 * ms
	_, err = w.Add(1, 10*time.Second)
	require.NoError(t, err)
	w.advance()
	require.EqualValues(t, 1, w.Stats().Stalls)
	for range 130 {
		now += 100 * ms
		w.advance()
		takeUpAll(w)
	}
	require.True(t, expired, "the hour is not in its lag")
}

func TestOnStallMayStopTheWheelAndPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *WheelOf[int]
		var panicked atomic.Value
		w, clock := newJumpingWheel(t, Config{
			OnStall: func(time.Duration) { w.Stop(); panic("oh") },
			OnPanic: func(v any, _ []byte) { panicked.Store(v) },
		}, func(*TimerOf[int], int) {})
		clock.jumpBy(time.Minute)
		time.Sleep(time.Second)
		require.Equal(t, "oh", panicked.Load())
		_, err := w.Add(1, time.Second)
		require.ErrorIs(t, err, ErrClosed)
	})
}

// Frozen and running by turns, with never enough time for a whole grace and a tick:
// the wheel gets on all the same.
func TestTimeNeverStandsStillForEver(t *testing.T) {
	for _, runs := range []time.Duration{500 * ms, 1000 * ms, 1050 * ms, 1100 * ms, 1500 * ms} {
		now := time.Duration(0)
		w, err := newDue(Config{}, func(*TimerOf[int], int) {})
		require.NoError(t, err)
		w.since = func() time.Duration { return now }
		const times = 1000
		for range times {
			now += 1100 * ms
			wait := w.advance()
			for left := runs; left > 0; wait = w.advance() {
				d := min(max(wait, 1), left)
				now += d
				left -= d
			}
		}
		require.GreaterOrEqual(t, w.clock.span(w.clock.now.Load()), 40*time.Second, "runs %v", runs)
	}
}

// The stall hits shortly before the expiry of a timer held back.
func TestTheHandDoesNotSpinInTheGrace(t *testing.T) {
	now := time.Duration(0)
	w, err := newDue(Config{}, func(*TimerOf[int], int) {})
	require.NoError(t, err)
	w.workers.most = 0
	w.since = func() time.Duration { return now }
	now = 100 * ms
	w.advance()
	_, err = w.Add(1, 500*ms)
	require.NoError(t, err)
	now = 221 * ms // leaves the tick of the touch late by 21ms
	for now < 700*ms {
		now += max(w.advance(), time.Microsecond)
	}
	w.advance()
	require.NotNil(t, w.held.first)
	now += 21*ms - time.Microsecond
	w.advance()
	now += time.Minute
	wakings := 0
	for end := now + time.Second; now < end; wakings++ {
		now += max(w.advance(), time.Microsecond)
	}
	require.Less(t, wakings, 20)
	require.EqualValues(t, 1, w.Stats().Stalls)
}

// If a timer ends before the first look after a stall, the stall is no lateness.
func TestStallIsNoLateness(t *testing.T) {
	now := time.Duration(0)
	w, err := newDue(Config{}, func(*TimerOf[int], int) {})
	require.NoError(t, err)
	w.workers.most = 0
	w.since = func() time.Duration { return now }
	timer, err := w.Add(1, 500*ms)
	require.NoError(t, err)
	for now < 700*ms {
		now += max(w.advance(), time.Microsecond)
	}
	require.True(t, timer.IsDue())
	now += time.Hour
	_, ok := timer.Expire()
	require.True(t, ok)
	require.Less(t, w.Stats().Late.Max, time.Second)
}

func TestLostCountsSinceTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, clock := newJumpingWheel(t, Config{Tick: 10 * ms}, func(*TimerOf[int], int) {})
		time.Sleep(time.Second)
		require.Zero(t, w.Lost(), "the machine slept before the wheel was made")
		clock.napBy(time.Minute)
		time.Sleep(20 * ms)
		require.GreaterOrEqual(t, w.Lost(), time.Minute)
		require.Less(t, w.Lost(), time.Minute+100*ms)
	})
}
