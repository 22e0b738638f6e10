package wheel

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A touch at any moment of the hand's waking: before the clock is read for the tick,
// between this read and the read for the lag, and after both.
func TestTouchWhileTheHandWakesIsNotEarly(t *testing.T) {
	for read := 1; read <= 3; read++ {
		var now, touched time.Duration
		reads := 0
		var timer *TimerOf[int]
		w, err := newDue(Config{Tick: 10 * ms, Stall: -1}, func(*TimerOf[int], int) {})
		require.NoError(t, err)
		w.workers.most = 0
		w.since = func() time.Duration { return now }
		timer, err = w.Add(1, 100*ms)
		require.NoError(t, err)
		w.since = func() time.Duration {
			reads++
			at := now
			if reads == read { // time goes on behind the reading, and somebody touches
				now += 7 * ms
				touched = now
				require.True(t, timer.Touch())
			}
			return at
		}
		now = 10 * ms
		w.advance()
		for w.Stats().Due == 0 {
			now = now.Truncate(ms) + ms
			w.advance()
		}
		require.GreaterOrEqual(t, now, touched+100*ms, "touch in read %d", read)
	}
}

// takeUpAll does the workers' work on this goroutine.
func takeUpAll[V any](w *WheelOf[V]) {
	for {
		timer, v, ok := w.takeUp()
		if !ok {
			w.mu.Lock()
			w.workers.running = 0
			w.mu.Unlock()
			return
		}
		w.call(func() { w.funcs.Due(timer, v) })
	}
}

// Touches and the hand, as close together as can be: no clock, and each waking of the hand
// is a tick. Each touch reported true must have held.
func TestTouchAgainstTheHand(t *testing.T) {
	w, err := newDue(Config{Tick: ms, Levels: []int{4, 4}, Stall: -1}, func(timer *TimerOf[*atomic.Uint64], at *atomic.Uint64) {
		at.Store(timer.wheel.clock.now.Load())
		timer.Expire()
	})
	require.NoError(t, err)
	w.workers.most = 0
	var now atomic.Int64
	w.since = func() time.Duration { return time.Duration(now.Load()) }
	var stop atomic.Bool
	var hand, touchers sync.WaitGroup
	hand.Go(func() {
		for !stop.Load() {
			now.Add(int64(ms))
			w.advance()
			takeUpAll(w)
		}
	})
	for range 2 {
		touchers.Go(func() {
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				expired := new(atomic.Uint64)
				timer, err := w.Add(expired, ms)
				if err != nil {
					t.Error(err)
					return
				}
				promise := uint64(0)
				for {
					now := w.clock.now.Load()
					if !timer.Touch() {
						break
					}
					promise = now + 2
				}
				if at := expired.Load(); at < promise {
					t.Errorf("expired at tick %d, promised until %d", at, promise)
					return
				}
			}
		})
	}
	touchers.Wait()
	stop.Store(true)
	hand.Wait()
}

// A touch beside a change of the delay, in either order: the deadline must follow the last
// delay.
func TestTouchAgainstSetDelay(t *testing.T) {
	w, err := newDue(Config{Tick: ms}, func(*TimerOf[int], int) {})
	require.NoError(t, err)
	timer, err := w.Add(1, time.Second)
	require.NoError(t, err)
	var stop atomic.Bool
	var toucher sync.WaitGroup
	var round, seen atomic.Int64
	toucher.Go(func() {
		for !stop.Load() {
			timer.Touch()
			seen.Store(round.Load())
		}
	})
	wrong, begun := 0, time.Now()
	for i := int64(1); i < 20_000; i++ {
		if i > 2000 && time.Since(begun) > time.Second {
			break // beside others on the processors a round waits for a turn of the scheduler, 20,000 for 20 s
		}
		w.clock.now.Add(1)
		d := time.Duration(1000+i%7*100) * ms
		if i%1000 > 500 {
			d += time.Hour // longer than a revolution of the top level
		}
		timer.SetDelay(d)
		timer.Touch() // a touch begun earlier may be dated by the tick before
		round.Store(i)
		for seen.Load() != i { // until the touches begun earlier have ended
			runtime.Gosched()
		}
		if timer.left() != d+ms {
			wrong++
		}
	}
	stop.Store(true)
	toucher.Wait()
	require.Zero(t, wrong, "deadlines of an earlier delay")
}

// Start publishes the timer to everybody with a reference to it.
func TestStartAgainstEverythingElse(t *testing.T) {
	w, err := startDue(Config{}, func(timer *TimerOf[int], _ int) { timer.Expire() })
	require.NoError(t, err)
	defer w.Stop()
	w2, err := startDue(Config{}, func(timer *TimerOf[int], _ int) { timer.Expire() })
	require.NoError(t, err)
	defer w2.Stop()
	for range 1000 {
		var timer TimerOf[int]
		var started atomic.Int64
		var all sync.WaitGroup
		for _, on := range []*WheelOf[int]{w, w2, w, w2} {
			all.Go(func() {
				if on.Start(&timer, 1, time.Hour) == nil {
					started.Add(1)
				}
			})
		}
		for _, do := range []func(){
			func() { timer.Touch() },
			func() { timer.Expire() },
			func() { timer.Rearm(time.Hour) },
			func() { timer.Value() },
			func() { timer.idle() },
			func() { _, _ = timer.Touched() },
		} {
			all.Go(do)
		}
		all.Wait()
		require.EqualValues(t, 1, started.Load())
		require.Equal(t, w.Len()+w2.Len(), 1, "it is on one of them")
		_, ok := timer.Remove()
		require.True(t, ok)
	}
}

// Two changes of the delay at the same time: the deadline follows the delay left in the
// timer.
func TestSetDelayAgainstSetDelay(t *testing.T) {
	w, err := newDue(Config{Tick: ms}, func(*TimerOf[int], int) {})
	require.NoError(t, err)
	timer, err := w.Add(1, time.Second)
	require.NoError(t, err)
	for range 20_000 {
		var both sync.WaitGroup
		for _, d := range []time.Duration{time.Second, 2 * time.Second} {
			both.Go(func() { timer.SetDelay(d) })
		}
		both.Wait()
		require.Equal(t, w.clock.span(timer.delay)+ms, timer.left())
	}
}
