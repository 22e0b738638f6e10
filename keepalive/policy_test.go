package keepalive

import (
	"io"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// requireClosed reads until the connection is closed. It requires the given reason, and an end
// not before after has passed since begin, and at most two ticks later: with the default, as on
// an idle server.
func requireClosed(t *testing.T, k *Keeper, conn net.Conn, reason Reason, begin time.Time, after time.Duration) {
	t.Helper()
	_, err := io.Copy(io.Discard, conn)
	require.ErrorIs(t, err, reason)
	require.ErrorIs(t, err, net.ErrClosed)
	require.GreaterOrEqual(t, time.Since(begin), after)
	require.LessOrEqual(t, time.Since(begin), after+2*k.sleep)
	synctest.Wait()
	require.Positive(t, k.Stats().Closed[reason])
}

// beatEvery touches a connection every d, for as long as it lives.
func beatEvery(t *testing.T, conn any, d time.Duration) {
	go func() {
		for Touch(conn) {
			if !sleep(t.Context(), d) {
				return
			}
		}
	}()
}

func TestFirstMessage(t *testing.T) {
	for _, timeout := range []time.Duration{500 * ms, 3 * time.Second, time.Minute, time.Hour} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, Config{Timeout: timeout, Tick: 50 * ms, FirstMessage: 3 * time.Second})
				begin := time.Now()
				mute, _ := pipe(k)
				speaks, peer := pipe(k)
				touched, _ := pipe(k)
				time.Sleep(200 * ms)
				go func() { _, _ = peer.Write([]byte("hello")) }()
				_, err := speaks.Read(make([]byte, 8))
				require.NoError(t, err)
				require.True(t, Touch(touched))
				spoke := time.Now()
				at, why, ok := Of(mute).Deadline()
				require.True(t, ok)
				require.Equal(t, ReasonFirstMessage, why)
				require.WithinDuration(t, begin.Add(3*time.Second), at, 100*ms)
				if timeout < 3*time.Second {
					requireClosed(t, k, speaks, ReasonIdle, spoke, timeout)
				}
				requireClosed(t, k, mute, ReasonFirstMessage, begin, 3*time.Second)
				if timeout >= 3*time.Second {
					requireClosed(t, k, speaks, ReasonIdle, spoke, timeout)
				}
				require.EqualValues(t, 1, k.Stats().Closed[ReasonFirstMessage])
			})
		})
	}
}

func TestSetTimeoutInForceAtOnceLongerAndShorter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 30 * time.Second, Interval: Interval{Min: time.Second, Max: 10 * time.Minute}})
		longer, _ := pipe(k)
		shorter, _ := pipe(k)
		same, _ := pipe(k)
		time.Sleep(10 * time.Second)
		begin := time.Now()
		in, err := Of(longer).SetTimeout(5 * time.Minute)
		require.NoError(t, err)
		require.Equal(t, 5*time.Minute, in)
		in, err = Of(shorter).SetTimeout(2 * time.Second)
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, in)
		requireClosed(t, k, shorter, ReasonIdle, begin, 2*time.Second)
		requireClosed(t, k, same, ReasonIdle, begin, 20*time.Second)
		time.Sleep(time.Minute)
		require.True(t, Touch(longer)) // it keeps what it has been given
		begin = time.Now()
		requireClosed(t, k, longer, ReasonIdle, begin, 5*time.Minute)

		_, err = Of(longer).SetTimeout(time.Second)
		require.ErrorIs(t, err, ErrNotGuarded)
		_, err = Of(longer).SetInterval(time.Second)
		require.ErrorIs(t, err, ErrNotGuarded)
		_, err = Of(longer).SetInterval(0)
		require.ErrorIs(t, err, ErrNotGuarded)
		_, err = Of(longer).SetTimeout(0)
		require.ErrorIs(t, err, ErrArgument)
	})
}

func TestTimeoutsOfTheirOwnAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Interval: Interval{Min: time.Second, Max: time.Hour}})
		free := newKeeper(t, Config{Interval: Interval{Multiplier: 2}})
		conn, _ := pipe(k)
		other, _ := pipe(free)
		for _, c := range []struct{ beat, want time.Duration }{
			{1, time.Second},
			{time.Second, 1500 * ms},
			{50_000 * time.Second, time.Hour}, // 16 bits of seconds and a half more
			{math.MaxInt64, time.Hour},
			{0, time.Minute},
			{-5, time.Minute},
		} {
			in, err := Of(conn).SetInterval(c.beat)
			require.NoError(t, err)
			require.Equal(t, c.want, in, "%v", c.beat)
		}
		for _, c := range []struct{ beat, want time.Duration }{
			{1, 10 * ms}, // a tick
			{time.Second, 2 * time.Second},
			{50_000 * time.Second, 100_000 * time.Second},
			{math.MaxInt64/2 + 1, math.MaxInt64},
			{math.MaxInt64, math.MaxInt64},
		} {
			in, err := Of(other).SetInterval(c.beat)
			require.NoError(t, err)
			require.Equal(t, c.want, in, "%v", c.beat)
		}
		time.Sleep(10 * time.Minute)
		require.True(t, Touch(other), "the longest that there is")
		at, _, ok := Of(other).Deadline()
		require.True(t, ok)
		require.True(t, at.After(time.Now().Add(1e6*time.Hour)))
	})
}

func TestReadAndWriteIdleBesideTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, Activity: ActivityReadWrite, ReadIdle: 20 * time.Second, WriteIdle: 10 * time.Second})
		open := func() (net.Conn, net.Conn) {
			c, peer := pipe(k)
			go func() { _, _ = io.Copy(io.Discard, peer) }()
			return c, peer
		}
		begin := time.Now()
		silent, _ := open()
		writes, _ := open()
		both, peer := open()
		go func() {
			for {
				if _, err := writes.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(3 * time.Second)
			}
		}()
		var last atomic.Int64
		go func() {
			for range 20 {
				last.Store(int64(time.Since(begin)))
				_, _ = peer.Write([]byte("x"))
				_, _ = both.Write([]byte("x"))
				time.Sleep(3 * time.Second)
			}
		}()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			requireClosed(t, k, both, ReasonWriteIdle, begin, 57*time.Second+10*time.Second)
		}()
		requireClosed(t, k, silent, ReasonWriteIdle, begin, 10*time.Second)
		requireClosed(t, k, writes, ReasonReadIdle, begin, 20*time.Second)
		<-ended
		require.EqualValues(t, 57*time.Second, last.Load())
	})
}

func TestHoldSuspendsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Second})
		conn, _ := pipe(k)
		one, two := Of(conn).Hold(), Of(conn).Hold()
		time.Sleep(time.Minute)
		one()
		one()
		time.Sleep(time.Minute)
		require.Equal(t, 1, k.Len(), "held twice")
		two()
		begin := time.Now()
		requireClosed(t, k, conn, ReasonIdle, begin, time.Second)
		two()
		Of(conn).Hold()()
		Of("what is that?").Hold()()
	})
}

func TestMaxAgeEndsEvenABusyConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		begin := time.Now()
		k := newKeeper(t, Config{
			Timeout: time.Second,
			Age:     Age{Max: time.Hour, Grace: time.Minute, OnMax: func(any) { told.Store(int64(time.Since(begin))) }},
		})
		conn, _ := pipe(k)
		at, why, ok := Of(conn).Deadline()
		require.True(t, ok)
		require.Equal(t, ReasonIdle, why)
		require.WithinDuration(t, time.Now().Add(time.Second), at, 200*ms)
		_, err := Of(conn).SetTimeout(2 * time.Hour)
		require.NoError(t, err)
		at, why, _ = Of(conn).Deadline()
		require.Equal(t, ReasonMaxAge, why)
		_, err = Of(conn).SetTimeout(time.Second)
		require.NoError(t, err)
		beatEvery(t, conn, 100*ms)
		_, err = io.Copy(io.Discard, conn)
		require.ErrorIs(t, err, ReasonMaxAge)
		age, grace := time.Duration(told.Load()), time.Since(begin)-time.Duration(told.Load())
		require.Greater(t, age, 54*time.Minute)
		require.Less(t, age, time.Hour+200*ms)
		require.GreaterOrEqual(t, grace, time.Minute)
		require.Less(t, grace, time.Minute+500*ms)
		require.WithinDuration(t, at, time.Now(), 500*ms, "as Deadline has said an hour before")
	})
}

// Ages are spread over the jitter, and each is drawn once.
func TestMaxAgeIsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Age: Age{Max: 10 * time.Minute, Jitter: 0.5}})
		begin := time.Now()
		for range 1000 {
			c, _ := pipe(k)
			beatEvery(t, c, 20*time.Second)
		}
		time.Sleep(5*time.Minute - time.Second)
		require.Equal(t, 1000, k.Len())
		for minute := 5; minute < 10; minute++ {
			before := k.Len()
			time.Sleep(time.Until(begin.Add(time.Duration(minute+1) * time.Minute)))
			require.InDelta(t, 200, before-k.Len(), 60, "in minute %d", minute)
		}
		time.Sleep(time.Second)
		require.Zero(t, k.Len())
		exact := newKeeper(t, Config{Age: Age{Max: time.Second, Jitter: -1}})
		begin = time.Now()
		c, _ := pipe(exact)
		requireClosed(t, exact, c, ReasonMaxAge, begin, time.Second)
	})
}

func TestTooManyHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Rate: Rate{MinBeat: time.Second, Strikes: 2}})
		begin := time.Now()
		storms, _ := pipe(k)
		bursts, _ := pipe(k)
		beats, _ := pipe(k)
		reads, peer := pipe(k)
		beatEvery(t, storms, 500*ms)
		beatEvery(t, beats, time.Second)
		go func() { // more than allowed for ten seconds, and then less
			// In the middle of a window: at its end, two windows might share a burst.
			for ok := sleep(t.Context(), 5*time.Second); ok; ok = sleep(t.Context(), 30*time.Second) {
				for range 30 {
					Touch(bursts)
				}
			}
		}()
		go func() { _, _ = io.Copy(io.Discard, reads) }()
		for range 600 { // bytes are no heartbeats
			_, err := peer.Write([]byte("x"))
			require.NoError(t, err)
			time.Sleep(100 * ms)
		}
		_, err := io.Copy(io.Discard, storms)
		require.ErrorIs(t, err, ReasonTooMany)
		require.False(t, ReasonTooMany.Retryable())
		require.Less(t, time.Since(begin), 61*time.Second)
		time.Sleep(time.Minute)
		require.True(t, Touch(bursts))
		require.True(t, Touch(beats))
		require.EqualValues(t, 1, k.Stats().Closed[ReasonTooMany])
		require.NoError(t, reads.Close())
	})
}

// The process was stopped for a while. Beats sent meanwhile come in one window, and only there: a connection opened
// after the stop has none of them.
func TestTimeOfAStopIsForTheConnectionsOfThatTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Rate: Rate{MinBeat: time.Second, Strikes: 1}})
		var stopped atomic.Int64
		k.stopped = func() time.Duration { return time.Duration(stopped.Load()) }
		beats := func(c net.Conn) {
			for range 20 {
				Touch(c)
			}
		}
		before, _ := pipe(k)
		stopped.Add(int64(20 * time.Second))
		after, _ := pipe(k)
		begin := time.Now()
		beats(before)
		beats(after)
		requireClosed(t, k, after, ReasonTooMany, begin, 10*time.Second)
		time.Sleep(time.Second) // the window of the other has ended, too
		require.True(t, Touch(before), "beats of the time of the stop")
		beats(before)
		_, err := io.Copy(io.Discard, before)
		require.ErrorIs(t, err, ReasonTooMany, "the next window has none of it")
	})
}

func TestSlowTrickle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Rate: Rate{MinBytes: 100, Strikes: 2}})
		feed := func(bytes int, every time.Duration) net.Conn {
			c, peer := pipe(k)
			go func() {
				for {
					if _, err := peer.Write(make([]byte, bytes)); err != nil || !sleep(t.Context(), every) {
						return
					}
				}
			}()
			return c
		}
		begin := time.Now()
		trickle, stream := feed(1, time.Second), feed(1000, 5*time.Second)
		mute, _ := pipe(k)
		go func() { _, _ = io.Copy(io.Discard, stream) }()
		requireClosed(t, k, trickle, ReasonTooSlow, begin, 20*time.Second)
		requireClosed(t, k, mute, ReasonIdle, begin, time.Minute) // silence is another matter
		time.Sleep(time.Hour)
		require.Equal(t, 1, k.Len())
		require.NoError(t, stream.Close())
	})
}
