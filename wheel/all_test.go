package wheel

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

// While All goes through the timers, others start, end, are moved, come due and are filed
// again. Those that run all the time are seen all the same, and once.
func TestAllSeesEachTimerOnceWhateverMoves(t *testing.T) {
	const timers = 320 * chunkSize
	w, err := NewOf(Config{Tick: time.Millisecond}, Funcs[int]{Due: func(m *TimerOf[int], _ int) { m.TouchAt(time.Hour) }})
	require.NoError(t, err)
	defer w.Stop()
	all := make([]*TimerOf[int], timers)
	for i := range all {
		all[i] = new(TimerOf[int])
		require.NoError(t, w.Start(all[i], i, time.Millisecond+rand.N(200*time.Millisecond)))
	}
	over := make(chan struct{})
	var moving sync.WaitGroup
	move := func(f func()) {
		moving.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					f()
				}
			}
		})
	}
	move(func() { all[rand.N(timers)].Move(rand.N(time.Second)) })
	move(func() {
		other := new(TimerOf[int])
		_ = w.Start(other, -1, time.Millisecond+rand.N(200*time.Millisecond))
		all[rand.N(timers)].HandOver()
		other.Remove()
	})
	defer moving.Wait()
	defer close(over)
	walks := 20
	if testmain.Race {
		walks = 8
	}
	for range walks {
		seen := make(map[*TimerOf[int]]int, timers)
		for _, timer := range w.timers() {
			seen[timer]++
		}
		for _, timer := range all {
			if n := seen[timer]; n != 1 {
				require.Equal(t, 1, n)
			}
		}
	}
}

func TestAllLeavesOutTheEndedAndMayBeLeft(t *testing.T) {
	w, err := NewOf(Config{}, Funcs[int]{Due: func(*TimerOf[int], int) {}})
	require.NoError(t, err)
	defer w.Stop()
	timers := make([]TimerOf[int], 3)
	for i := range timers {
		require.NoError(t, w.Start(&timers[i], i+1, time.Hour))
	}
	seen := 0
	for range w.All() {
		seen++
		break
	}
	require.Equal(t, 1, seen)
	for timer, v := range w.All() {
		seen++
		require.NotZero(t, v)
		for i := range timers {
			if &timers[i] != timer {
				timers[i].Remove()
			}
		}
	}
	require.Equal(t, 2, seen, "the others have ended")
}
