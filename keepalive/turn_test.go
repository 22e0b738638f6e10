package keepalive

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Closed connections in the queue take no turns from the others.
func TestGoneConnectionsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Age: Age{Max: 10 * time.Minute, Jitter: -1}, Closing: Closing{MaxPerSecond: 10}})
		var cs []net.Conn
		for range 1000 {
			c, _ := pipe(k)
			cs = append(cs, c)
			beatEvery(t, c, 10*time.Second)
		}
		time.Sleep(10*time.Minute + 400*ms) // all are condemned
		for _, c := range cs[:990] {
			_ = c.Close()
		}
		begin := time.Now()
		for k.Len() > 0 {
			time.Sleep(100 * ms)
		}
		require.Less(t, time.Since(begin), 5*time.Second, "ten are left, of which ten per second may be closed")
	})
}

// A read silence counted in a dry run closes the connection after it.
func TestReadIdleAfterDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Timeout: time.Minute, ReadIdle: 20 * time.Second, Activity: ActivityManual, Closing: Closing{DryRun: true}}
		k := newKeeper(t, cfg)
		c, _ := pipe(k)
		beatEvery(t, c, 5*time.Second)
		time.Sleep(2 * time.Minute)
		require.EqualValues(t, 1, k.Stats().WouldClose[ReasonReadIdle])
		cfg.Closing.DryRun = false
		require.NoError(t, k.Update(cfg))
		time.Sleep(10 * time.Minute)
		n := k.Len()
		_ = c.Close()
		require.Zero(t, n, "nothing was read for 12 minutes")
	})
}

// Updates while many wait for their turn.
func TestUpdatesWhileCondemned(t *testing.T) {
	for _, updates := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cfg := Config{Timeout: time.Minute, Age: Age{Max: 10 * time.Minute, Jitter: -1}, Closing: Closing{MaxPerSecond: 1}}
			k := newKeeper(t, cfg)
			for range 100 {
				c, _ := pipe(k)
				beatEvery(t, c, time.Second)
			}
			time.Sleep(10*time.Minute + time.Second)
			begin := time.Now()
			for k.Len() > 0 {
				time.Sleep(2 * time.Second)
				if updates {
					require.NoError(t, k.Update(cfg))
				}
			}
			took := time.Since(begin)
			k.pace.mu.Lock()
			left := len(k.pace.queue)
			k.pace.mu.Unlock()
			t.Logf("updates %v: took %v for 100 at one per second, left in the queue %d", updates, took, left)
			if took > 120*time.Second || left > 0 {
				t.Errorf("updates %v: took %v, %d left in the queue", updates, took, left)
			}
		})
	}
}

// Deadline of a connection in the queue.
func TestDeadlineOfQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 10 * time.Second, Closing: Closing{MaxPerSecond: 1}})
		var cs []net.Conn
		for range 5 {
			c, _ := pipe(k)
			cs = append(cs, c)
		}
		time.Sleep(10300 * ms)
		for _, c := range cs {
			if at, why, ok := Of(c).Deadline(); ok {
				if time.Until(at) > 10*time.Second {
					t.Errorf("will be closed in %v at the earliest, says Deadline, for %v", time.Until(at), why)
				}
			}
		}
		time.Sleep(10 * time.Second)
		require.Zero(t, k.Len())
	})
}

// Condemned by read idle, and then held.
func TestHeldWhileCondemned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, ReadIdle: 10 * time.Second, Closing: Closing{MaxPerSecond: 1}})
		var cs []net.Conn
		for range 10 {
			c, _ := pipe(k)
			cs = append(cs, c)
		}
		time.Sleep(10500 * ms)
		n := k.Len()
		for _, c := range cs {
			Of(c).Hold()
		}
		time.Sleep(time.Minute)
		require.GreaterOrEqual(t, k.Len(), n-1)
		for _, c := range cs {
			_ = c.Close()
		}
	})
}

// Two drains at the same time.
func TestDrainTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Closing: Closing{MaxPerSecond: 1}})
		for range 50 {
			c, _ := pipe(k)
			beatEvery(t, c, time.Second)
		}
		go func() { _ = k.Drain(context.Background(), 30*time.Second) }()
		begin := time.Now()
		require.NoError(t, k.Drain(context.Background(), 10*time.Second))
		require.LessOrEqual(t, time.Since(begin), 11*time.Second)
		time.Sleep(time.Minute)
	})
}

// A connection rescued from ReadIdle leaves its turn to others.
func TestRescuedReadIdleTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, ReadIdle: 10 * time.Second, Closing: Closing{MaxPerSecond: 10}})
		var peers, cs []net.Conn
		for range 1000 {
			c, peer := pipe(k)
			drained(t, c)
			peers, cs = append(peers, peer), append(cs, c)
		}
		time.Sleep(10400 * ms) // all wait for their turn
		stop := make(chan struct{})
		for _, p := range peers {
			go func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(5 * time.Second):
					}
					if _, err := p.Write([]byte("x")); err != nil {
						return
					}
				}
			}()
		}
		time.Sleep(6 * time.Second)
		dead, _ := pipe(k)
		begin := time.Now()
		_, err := dead.Read(make([]byte, 1))
		took := time.Since(begin)
		close(stop)
		for i := range cs {
			_ = cs[i].Close()
			_ = peers[i].Close()
		}
		require.ErrorIs(t, err, ReasonReadIdle)
		require.Less(t, took, 12*time.Second, "nobody else is being closed")
	})
}

func TestAnUpdateWithoutAPaceClosesTheQueueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Closing: Closing{MaxPerSecond: 1}})
		for range 100 {
			pipe(k)
		}
		time.Sleep(65 * time.Second)
		require.InDelta(t, 95, k.Len(), 1)
		require.NoError(t, k.Update(Config{Timeout: time.Minute}))
		time.Sleep(100 * ms)
		require.Zero(t, k.Len())
	})
}

func TestTurns(t *testing.T) {
	k := newKeeper(t, Config{Tick: time.Second / 10, Closing: Closing{MaxPerSecond: 10}})
	first, err := guardOf(k, nil)
	require.NoError(t, err)
	second, err := guardOf(k, nil)
	require.NoError(t, err)
	p := k.policy.Load()

	queue := pace{queue: []*Guard{first}, serving: true}
	require.False(t, queue.take(second, p), "the first one comes first")
	require.Equal(t, []*Guard{first, second}, queue.queue)

	now := time.Now()
	turns := pace{next: now, back: make(chan struct{}, 1)}
	require.True(t, turns.takeAt(now, p))
	require.Equal(t, now.Add(time.Second/10), turns.next)
	require.False(t, turns.takeAt(now, p))
	turns.giveBack(10)
	require.Equal(t, now, turns.next)
	require.Len(t, turns.back, 1)
	require.True(t, turns.takeAt(now, p))
	turns.giveBack(0) // an Update has ended the pace
	require.True(t, turns.takeAt(now, newKeeper(t, Config{}).policy.Load()))
}

// Turns are not given out for more than a second at once, however long the tick is.
func TestTurnsOfALongTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed [1000]atomic.Int64 // when, in the order of closing
		var n atomic.Int64
		k := newKeeper(t, Config{
			Timeout: time.Hour, Tick: time.Minute, Closing: Closing{MaxPerSecond: 10},
			OnClose: func(any, Reason) { closed[n.Add(1)-1].Store(time.Now().UnixNano()) },
		})
		for range closed {
			pipe(k)
		}
		for k.Len() > 0 {
			time.Sleep(time.Second)
		}
		synctest.Wait()
		for i := range closed[20:] {
			took := time.Duration(closed[i+20].Load() - closed[i].Load())
			require.GreaterOrEqual(t, took, time.Second, "closes %d to %d", i, i+20)
		}
		require.Less(t, time.Duration(closed[999].Load()-closed[0].Load()), 110*time.Second, "ten in a second")
	})
}
