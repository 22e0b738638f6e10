package keepalive

import (
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
)

func TestStatsCountWhoCameAndHowOldTheyBecame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 10 * time.Second, Room: Room{MaxConns: 3}})
		silent, _ := pipe(k)
		local, _ := pipe(k)
		talker, _ := pipe(k)
		_, _ = pipe(k) // one too many
		beatEvery(t, talker, time.Second)
		time.Sleep(2 * time.Second)
		require.NoError(t, local.Close())
		time.Sleep(10 * time.Second)

		s := k.Stats()
		require.EqualValues(t, 3, s.Opened)
		require.EqualValues(t, 1, s.RefusedFull)
		require.Equal(t, 1, s.Conns)
		require.Zero(t, s.Leaving)
		require.Equal(t, map[Reason]uint64{ReasonIdle: 1, ReasonLocal: 1}, s.Closed)
		require.EqualValues(t, 2, s.Ages.Count)
		require.InDelta(t, 10*time.Second, s.Ages.Max, float64(200*ms))
		require.InDelta(t, 12*time.Second, s.Ages.Sum, float64(200*ms))
		require.EqualValues(t, 1, s.Wheel.Late.Count)
		require.Less(t, s.Wheel.Late.Max, 200*ms)
		require.Positive(t, s.Wheel.Passes.Count)
		_ = silent
	})
}

// runtime.Goexit in one function, such as t.FailNow, harms neither the others nor Drain.
func TestGoexitOfAWatcherHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told, seen atomic.Int32
		k := newKeeper(t, Config{OnClose: func(any, Reason) { told.Add(1); runtime.Goexit() }})
		k.Watch(func(End) { runtime.Goexit() })
		k.Watch(func(End) { seen.Add(1) })
		pipe(k)
		require.NoError(t, k.Drain(t.Context(), 0))
		require.EqualValues(t, 1, seen.Load())
		require.EqualValues(t, 1, told.Load())
		require.Zero(t, k.Stats().Leaving)
	})
}

func TestInfoSaysWhatThereIsToKnowOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute})
		c, _ := pipe(k)
		time.Sleep(10 * time.Second)
		require.True(t, Touch(c))
		time.Sleep(5 * time.Second)
		info, ok := Of(c).Info()
		require.True(t, ok)
		require.EqualValues(t, 1, info.ID)
		require.Equal(t, 15*time.Second, info.Age)
		require.InDelta(t, 5*time.Second, info.Idle, float64(200*ms))
		require.Equal(t, time.Minute, info.Timeout)
		require.False(t, info.Held)
		release := Of(c).Hold()
		_, err := Of(c).SetTimeout(20 * time.Second)
		require.NoError(t, err)
		info, _ = Of(c).Info()
		require.True(t, info.Held)
		require.Equal(t, 20*time.Second, info.Timeout)
		release()

		require.NoError(t, c.Close())
		_, ok = Of(c).Info()
		require.False(t, ok)
		require.Nil(t, Of(c).RemoteAddr(t.Context()))
		_, ok = Of(42).Info()
		require.False(t, ok)
	})
}

func TestWatchersSeeEachEndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
		var mu sync.Mutex
		var first, second []End
		see := func(to *[]End) func(End) {
			return func(e End) {
				mu.Lock()
				defer mu.Unlock()
				*to = append(*to, e)
			}
		}
		stopFirst := k.Watch(see(&first))
		stopSecond := k.Watch(see(&second))
		k.Watch(func(End) { panic("harms nobody") })
		_, _ = pipe(k)
		local, _ := pipe(k)
		require.NoError(t, local.Close())
		stopFirst()
		stopFirst()
		begin := time.Now()
		time.Sleep(11 * time.Second)
		stopSecond()
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, first, 1)
		require.Same(t, local, first[0].Guard.Conn())
		first[0].Guard = nil
		require.Equal(t, []End{{ID: 2, At: begin, Reason: ReasonLocal}}, first)
		require.Len(t, second, 2)
		require.Equal(t, ReasonIdle, second[1].Reason)
		require.EqualValues(t, 1, second[1].ID)
		require.InDelta(t, 10*time.Second, second[1].Age, float64(200*ms))
		require.InDelta(t, 10*time.Second, second[1].Idle, float64(200*ms))
		require.EqualValues(t, 2, k.Stats().Panics)
	})
}

func TestNothingEndsWhatIsHeldButItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute})
		c, _ := pipe(k)
		release := Of(c).Hold()
		at, reason, ok := Of(c).Deadline()
		require.True(t, ok)
		require.True(t, at.IsZero())
		require.Zero(t, reason)
		release()
		at, reason, ok = Of(c).Deadline()
		require.True(t, ok)
		require.InDelta(t, time.Minute, time.Until(at), float64(200*ms))
		require.Equal(t, ReasonIdle, reason)

		k = newKeeper(t, Config{Timeout: time.Minute, Age: Age{Max: time.Hour, Jitter: -1}})
		c, _ = pipe(k)
		defer Of(c).Hold()()
		at, reason, ok = Of(c).Deadline()
		require.True(t, ok)
		require.InDelta(t, time.Hour, time.Until(at), float64(time.Second))
		require.Equal(t, ReasonMaxAge, reason)
	})
}

// A watcher must not wait for a PROXY header.
func TestTheAddressOfAnEndIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{})
		var mu sync.Mutex
		var ends []End
		k.Watch(func(e End) {
			mu.Lock()
			defer mu.Unlock()
			ends = append(ends, e)
		})
		a, _ := net.Pipe()
		addr := &net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 5}
		c := k.Conn(&addrConn{Conn: a, addr: addr})
		require.Nil(t, Of(c).RemoteAddr(t.Context()))
		require.NoError(t, c.Close())

		a, b := net.Pipe()
		c = k.Conn(&addrConn{Conn: a, addr: addr})
		go func() { _, _ = b.Write([]byte("x")) }()
		_, err := c.Read(make([]byte, 1))
		require.NoError(t, err)
		require.Equal(t, addr, Of(c).RemoteAddr(t.Context()))
		require.NoError(t, c.Close())
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, ends, 2)
		require.Nil(t, ends[0].Remote)
		require.Equal(t, addr, ends[1].Remote)
	})
}

func TestFillShowsWhereTheTimersAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 10 * time.Second})
		for range 100 {
			pipe(k)
		}
		time.Sleep(time.Second)
		filed := 0
		for _, level := range k.Stats().Wheel.Levels {
			for _, n := range level {
				filed += n
			}
		}
		require.Equal(t, 100, filed)
	})
}

// A connection too many is known only after its PROXY header.
func TestWhoIsIdentifiedLateIsAmongTheRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		k := newKeeper(t, Config{Room: Room{MaxPerKey: 1}, Logger: log.Logger(slog.LevelInfo)})
		addr := &net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 5}
		for range 3 {
			a, b := net.Pipe()
			c := k.Conn(&addrConn{Conn: a, addr: addr})
			go func() { _, _ = b.Write([]byte("x")) }()
			_, _ = c.Read(make([]byte, 1))
		}
		time.Sleep(2 * time.Second)
		require.Len(t, log.Lines("keepalive"), 1)
		require.Contains(t, log.Lines("level=WARN")[0], "refused_per_key=0 refused_per_user=0 closed=1")
	})
}

func TestAnEvictionIsALineAndADrainIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		k := newKeeper(t, Config{Room: Room{MaxConns: 200, Full: FullEvict}, Logger: log.Logger(slog.LevelWarn)})
		for range 200 {
			pipe(k)
		}
		require.NoError(t, k.Drain(t.Context(), 0))
		time.Sleep(time.Minute)
		require.Empty(t, log.String())
		k.Resume()
		for range 201 {
			pipe(k)
			time.Sleep(10 * ms)
		}
		time.Sleep(2 * time.Second)
		require.Len(t, log.Lines("evicted=1"), 1)
	})
}

// A day of a full server is not a line per second.
func TestRefusalsAreALineAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		k := newKeeper(t, Config{Timeout: time.Hour, Room: Room{MaxConns: 1, MaxPerKey: 1}, Logger: log.Logger(slog.LevelInfo)})
		pipe(k)
		for range 10 * 60 {
			pipe(k)
			time.Sleep(time.Second)
		}
		lines := log.Lines("level=WARN")
		require.InDelta(t, 10, len(lines), 1)
		require.Contains(t, lines[0], "conns=1 refused=1 refused_per_key=0 refused_per_user=0 closed=0 evicted=0", "at once")
		time.Sleep(10 * time.Minute)
		require.Len(t, log.Lines("keepalive"), len(lines))
		pipe(k)
		require.Contains(t, log.Lines("keepalive")[len(lines)], "refused=601")
	})
}
