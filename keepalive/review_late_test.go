package keepalive

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// R27. The wheel's lock is held for longer than a hop (here by Conns over many
// connections), so that Await is given a time that has passed by when it gets the lock,
// though the patience has not.
func TestReviewEarlyWhereTheLockIsHeldForLongerThanAHop(t *testing.T) {
	if testing.Short() {
		t.Skip()
	}
	const timeout = 2 * time.Second
	type item struct {
		conn    any
		touched atomic.Int64
	}
	var early, closed atomic.Int32
	var worst atomic.Int64
	live := make([]item, 100)
	index := map[any]*item{}
	k, err := New(Config{Timeout: timeout, Tick: ms, PressureTimeout: ms, // a hop of a tick
		Pressure: func() float64 { return 0 },
		OnClose: func(conn any, r Reason) {
			closed.Add(1)
			if i := index[conn]; i != nil {
				if idle := time.Since(time.Unix(0, i.touched.Load())); r == ReasonIdle && idle < timeout {
					early.Add(1)
					worst.Store(max(worst.Load(), int64(timeout-idle)))
				}
			}
		}})
	require.NoError(t, err)
	defer k.Close()
	for i := range live {
		live[i].conn, _ = pipe2(k)
		live[i].touched.Store(time.Now().UnixNano())
		index[live[i].conn] = &live[i]
	}
	for range 200_000 {
		c, _ := pipe2(k)
		_, err := k.SetTimeout(c, 100*time.Hour)
		require.NoError(t, err)
	}
	stop := make(chan struct{})
	for range 3 {
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					for range k.Conns() {
						break
					}
				}
			}
		}()
	}
	end := time.Now().Add(15 * time.Second)
	for time.Now().Before(end) && early.Load() == 0 {
		for i := range live {
			now := time.Now().UnixNano()
			if k.Touch(live[i].conn) {
				live[i].touched.Store(now)
			}
		}
		time.Sleep(100 * ms)
	}
	close(stop)
	t.Logf("closed %d, early %d, worst by %v, %+v", closed.Load(), early.Load(), time.Duration(worst.Load()), k.Stats().Wheel)
	require.Zero(t, early.Load())
}

func pipe2(k *Keeper) (any, any) { a, b := pipe(k); return a, b }
