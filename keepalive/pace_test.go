package keepalive

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// Connections that close while the rate holds them up delay no others.
func TestGoneConnectionsDelayNoOthers(t *testing.T) {
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

// Updates while many wait for the rate.
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
			t.Logf("updates %v: took %v for 100 at one per second", updates, took)
			if took > 120*time.Second {
				t.Errorf("updates %v: took %v", updates, took)
			}
		})
	}
}

// Deadline of a connection that waits for the rate.
func TestDeadlineAboveTheRate(t *testing.T) {
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

// Connections rescued from ReadIdle delay no others.
func TestRescuedReadIdleDelaysNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, ReadIdle: 10 * time.Second, Closing: Closing{MaxPerSecond: 10}})
		var peers, cs []net.Conn
		for range 1000 {
			c, peer := pipe(k)
			drained(t, c)
			peers, cs = append(peers, peer), append(cs, c)
		}
		time.Sleep(10400 * ms) // all wait for the rate
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

// The closes that wait for the rate are over at once.
func TestAnUpdateWithoutARateClosesAtOnce(t *testing.T) {
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

// Another rate holds for closes that wait already.
func TestAnUpdateOfTheRateHoldsAtOnce(t *testing.T) {
	for _, cfg := range []Config{
		{Timeout: time.Minute},
		{Timeout: time.Hour, Age: Age{Max: time.Minute, Jitter: -1}},
		{Timeout: time.Hour, ReadIdle: time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg.Closing.MaxPerSecond = 10
			k := newKeeper(t, cfg)
			for range 300 {
				pipe(k)
			}
			time.Sleep(65 * time.Second)
			left := k.Len()
			require.InDelta(t, 250, left, 2)
			cfg.Closing.MaxPerSecond = 1
			require.NoError(t, k.Update(cfg))
			time.Sleep(10 * time.Second)
			require.InDelta(t, left-10, k.Len(), 1)
			left = k.Len()
			cfg.Closing.MaxPerSecond = 100
			require.NoError(t, k.Update(cfg))
			time.Sleep(2 * time.Second)
			require.InDelta(t, left-150, k.Len(), 51, "the last close by the rate before takes its second")
			time.Sleep(2 * time.Second)
			require.Zero(t, k.Len())
		})
	}
}

// No more are closed at once than in a second, however long the tick is.
func TestARateWithALongTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed [200]atomic.Int64 // when, in the order of closing
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
		require.Less(t, time.Duration(closed[199].Load()-closed[0].Load()), 30*time.Second, "ten in a second")
	})
}

// All fall silent at the same time, and some are heard before they are closed. A try is a tick late at most.
func TestARateIsUsedUpAndNeverExceeded(t *testing.T) {
	const tick = 10 * ms
	for _, test := range []struct{ perSecond, conns, heard int }{ // heard of a hundred
		{1, 30, 0},
		{10, 300, 0},
		{10, 2000, 95},
		{1000, 300, 0},
		{1000, 5000, 0},
		{1000, 20_000, 50},
		{1000, 50_000, 90},
		{30_000, 20_000, 0},
	} {
		t.Run(fmt.Sprintf("rate=%d/conns=%d/heard=%d", test.perSecond, test.conns, test.heard), func(t *testing.T) {
			var c pace
			p := &policy{Config: Config{Tick: tick, Closing: Closing{MaxPerSecond: test.perSecond}}}
			due := map[rules.Time]int{0: test.conns} // how many try, by the tick
			var closed []rules.Time
			tried, heard := 0, 0
			for now := rules.Time(0); len(due) > 0; now = now.Add(tick) {
				for range due[now] {
					if n := tried - test.conns; n >= 0 && n < test.conns && (n+1)*test.heard/100 > n*test.heard/100 {
						heard++ // instead of its second try
						tried++
						continue
					}
					tried++
					allowed, retry := c.reserve(now, p)
					if allowed {
						closed = append(closed, now)
						continue
					}
					require.Greater(t, retry, now)
					due[(retry+rules.Time(tick)-1)/rules.Time(tick)*rules.Time(tick)]++
				}
				delete(due, now)
			}
			require.Len(t, closed, test.conns-heard)
			perTick := max(1, test.perSecond/100)
			for i, at := range closed[min(len(closed), test.perSecond+perTick):] {
				require.GreaterOrEqual(t, at.Sub(closed[i]), time.Second, "the closes from %d on", i)
			}
			took := time.Duration(test.conns-heard) * time.Second / time.Duration(test.perSecond)
			if test.heard > 100*(perClose-1)/perClose { // their tries are over before the others are closed
				took = max(took, time.Duration(test.conns)*min(time.Second/time.Duration(test.perSecond)/perClose, betweenTries))
			}
			require.Less(t, time.Duration(closed[len(closed)-1]), took*21/20+2*tick, "of %v", took)
			require.LessOrEqual(t, tried, test.conns+int((took+time.Second).Seconds()*float64(max(1000, perClose*test.perSecond))), "tries")
		})
	}
}
