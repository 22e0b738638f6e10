package heartbeat

import (
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/wheel"
)

func TestBeatsComeWithinAThirdOfTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		begin := time.Now()
		c, s := start(t, b, Options{Timeout: 30 * time.Second}, nil)
		require.GreaterOrEqual(t, c.Interval(), 7500*ms)
		require.LessOrEqual(t, c.Interval(), 10*time.Second)
		time.Sleep(10 * time.Minute)
		synctest.Wait() // one may be due right now
		all := gaps(begin, s.heard("PING"))
		require.GreaterOrEqual(t, len(all), 58)
		require.LessOrEqual(t, all[0], c.Interval()+2*tick)
		for _, gap := range all[1:] {
			require.GreaterOrEqual(t, gap, c.Interval(), "it is the same each time")
			require.LessOrEqual(t, gap, c.Interval()+2*tick)
		}
		require.EqualValues(t, len(all), b.Stats().Beats)
		require.NoError(t, c.Err())
	})
}

func TestAnIntervalThatWasGivenIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{Tick: 10 * ms})
		begin := time.Now()
		_, s := start(t, b, Options{Interval: 4 * time.Second}, nil)
		time.Sleep(time.Minute)
		all := gaps(begin, s.heard("PING"))
		require.GreaterOrEqual(t, len(all), 14)
		for _, gap := range all[1:] {
			require.GreaterOrEqual(t, gap, 4*time.Second)
			require.LessOrEqual(t, gap, 4020*ms)
		}
	})
}

func TestFirstBeatsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		const conns, interval = 2000, 20 * time.Second
		var mu sync.Mutex
		var first [10]int
		begin := time.Now()
		for range conns {
			once := false
			start(t, b, Options{Interval: interval, Beat: func(net.Conn) error {
				if !once { // never called twice at the same time
					mu.Lock()
					first[min(9, int(time.Since(begin)*10/interval))]++
					mu.Unlock()
				}
				once = true
				return nil
			}}, nil)
		}
		time.Sleep(interval + 2*tick)
		mu.Lock()
		defer mu.Unlock()
		sum := 0
		for tenth, n := range first {
			require.InDelta(t, conns/10, n, 0.35*conns/10, "tenth %d of the interval", tenth)
			sum += n
		}
		require.Equal(t, conns, sum)
	})
}

// Clients don't beat together after they have all written at the same moment.
func TestBeatsAreSpreadAfterTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		var mu sync.Mutex
		perTick := make(map[time.Duration]int)
		begin := time.Now()
		for range 1000 {
			c, _ := start(t, b, Options{Timeout: 60 * time.Second, Beat: func(net.Conn) error {
				mu.Lock()
				perTick[time.Since(begin)/tick]++
				mu.Unlock()
				return nil
			}}, nil)
			_, err := c.Write([]byte("LOGIN\n"))
			require.NoError(t, err)
		}
		time.Sleep(21 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Greater(t, len(perTick), 40, "the quarter is 50 ticks")
		for _, n := range perTick {
			require.Less(t, n, 60)
		}
	})
}

func TestWritesMakeBeatsUnnecessary(t *testing.T) {
	for _, answer := range []Answer{AnswerNone, AnswerRead, AnswerAck} {
		t.Run("answer="+answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBeater(t, Config{})
				c, s := start(t, b, Options{Timeout: 30 * time.Second, Answer: answer}, pong)
				ended := reader(c)
				for range 200 {
					_, err := c.Write([]byte("PONG please\n")) // the server sends it back
					require.NoError(t, err)
					time.Sleep(5 * time.Second)
				}
				require.Empty(t, s.heard("PING"))

				time.Sleep(c.Interval() - 5*time.Second + 2*tick)
				require.Len(t, s.heard("PING"), 1)
				c.Close()
				require.Error(t, <-ended)
			})
		})
	}
}

func TestTouchMakesABeatUnnecessary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		c, s := start(t, b, Options{Timeout: 30 * time.Second}, nil)
		for range 100 {
			c.Touch()
			time.Sleep(5 * time.Second)
		}
		require.Empty(t, s.heard("PING"))
	})
}

func TestTooManyDoublesTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		c, s := start(t, b, Options{Timeout: time.Minute, Interval: 10 * time.Second}, nil)
		time.Sleep(time.Minute)
		for _, seconds := range []int{20, 40, 45, 45} {
			want := time.Duration(seconds) * time.Second
			synctest.Wait() // for a beat on its way
			require.Equal(t, want, c.TooMany())
			require.Equal(t, want, c.Interval())
			before, begin := len(s.heard("PING")), time.Now()
			time.Sleep(10 * time.Minute)
			for _, gap := range gaps(begin, s.heard("PING")[before:]) {
				require.GreaterOrEqual(t, gap, want)
				require.LessOrEqual(t, gap, want+2*tick, "the server closes after a minute")
			}
		}

		// The next connection goes on with it.
		next, _ := start(t, b, Options{Timeout: time.Minute, Interval: c.Interval()}, nil)
		require.Equal(t, 45*time.Second, next.Interval())
	})
}

func TestTenThousandConnectionsNeedNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		before := runtime.NumGoroutine()
		most := 0
		conns := make([]*sink, 10_000)
		for i := range conns {
			conns[i] = new(sink)
			c, err := b.Start(conns[i], Options{Interval: 10 * time.Second, Message: []byte("PING\n")})
			require.NoError(t, err)
			defer c.Close()
		}
		for range 600 {
			time.Sleep(tick)
			most = max(most, runtime.NumGoroutine()-before)
		}
		require.LessOrEqual(t, most, 70, "the wheel's workers")
		synctest.Wait()
		for i, s := range conns {
			require.InDelta(t, 6, s.writes.Load(), 1, "connection %d", i)
		}
		require.Equal(t, len(conns), b.Stats().Conns)
	})
}

// While a connection is decided about, stalled can't hand it over. What the server has counted of
// the stall must not wait for the next beat.
func TestAStallWhileABeatIsDecidedAboutIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := 0
		w, err := wheel.NewOf(wheel.Config{}, wheel.Funcs[*beat]{
			Due:   func(*wheel.TimerOf[*beat], *beat) { due++ }, // the test decides
			Limit: (*beat).limit,
		})
		require.NoError(t, err)
		defer w.Stop()
		conn, _ := pipe(t, nil)
		c, err := (&Beater{wheel: w, tick: w.Stats().Tick}).Start(conn, pings)
		require.NoError(t, err)
		x := c.beat.Load()

		x.timer.Touch()
		require.True(t, x.timer.HandOver())
		synctest.Wait()
		require.Equal(t, 1, due)
		x.behind.Store(int64(time.Second))
		require.False(t, x.timer.HandOver(), "by stalled")
		require.True(t, x.waits(0), "behind was read before the stall")
		synctest.Wait()
		require.Equal(t, 2, due, "decided about again")
		require.True(t, x.waits(time.Duration(x.behind.Swap(0))))
		synctest.Wait()
		require.Equal(t, 2, due)
	})
}
