package keepalive

import (
	"io"
	"log/slog"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// A change of the config reaches connections within their old timeout, longer and shorter:
// silent ones, busy ones, and newcomers.
func TestUpdateReachesLiveConnections(t *testing.T) {
	for _, c := range []struct{ before, after time.Duration }{
		{30 * time.Second, 10 * time.Second},
		{10 * time.Second, 30 * time.Second},
		{5 * time.Minute, 10 * time.Second}, // within a minute
		{10 * time.Second, 5 * time.Minute},
		{10 * time.Minute, 2 * time.Minute},
	} {
		t.Run(c.before.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, Config{Timeout: c.before, Tick: 100 * ms})
				begin := time.Now()
				silent, _ := pipe(k)
				busy, _ := pipe(k)
				until, stop := make(chan struct{}), atomic.Bool{}
				go func() {
					for !stop.Load() && Touch(busy) {
						time.Sleep(time.Second)
					}
					close(until)
				}()
				time.Sleep(5 * time.Second)
				require.NoError(t, k.Update(Config{Timeout: c.after, Tick: 100 * ms}))
				require.Equal(t, c.after, k.Config().Timeout)
				updated := time.Now()
				fresh, _ := pipe(k)
				_, err := io.Copy(io.Discard, silent)
				require.ErrorIs(t, err, ErrIdleTimeout)
				require.GreaterOrEqual(t, time.Since(begin), c.after)
				latest := max(c.after, min(c.before, maxHop))
				require.LessOrEqual(t, time.Since(begin), latest+200*ms)
				_, err = io.Copy(io.Discard, fresh)
				require.ErrorIs(t, err, ErrIdleTimeout)
				require.GreaterOrEqual(t, time.Since(updated), c.after)
				require.LessOrEqual(t, time.Since(begin), latest+5*time.Second+200*ms)

				time.Sleep(time.Until(updated.Add(min(c.before, maxHop) + time.Second)))
				stop.Store(true)
				<-until
				require.True(t, Touch(busy))
				stopped := time.Now()
				requireClosed(t, k, busy, ReasonIdle, stopped, c.after)
			})
		})
	}
}

func TestUpdateTurnsPoliciesOnAndOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 10 * time.Second})
		conn, _ := pipe(k)
		beatEvery(t, conn, time.Second)
		time.Sleep(time.Minute)
		require.NoError(t, k.Update(Config{Timeout: 10 * time.Second, Age: Age{Max: 2 * time.Minute, Jitter: -1}}))
		updated := time.Now()
		_, err := io.Copy(io.Discard, conn)
		require.ErrorIs(t, err, ReasonMaxAge)
		require.GreaterOrEqual(t, time.Since(updated), 2*time.Minute)
		require.LessOrEqual(t, time.Since(updated), 2*time.Minute+11*time.Second)

		conn, _ = pipe(k)
		beatEvery(t, conn, time.Second)
		require.NoError(t, k.Update(Config{Timeout: 10 * time.Second, Room: Room{MaxConns: 1}}))
		time.Sleep(time.Hour)
		require.Equal(t, 1, k.Len(), "it has no age any more")
		refused, _ := pipe(k)
		_, err = refused.Read(make([]byte, 1))
		require.ErrorIs(t, err, ReasonFull)
		require.NoError(t, k.Update(Config{Timeout: 10 * time.Second}))
		pipe(k)
		require.Equal(t, 2, k.Len())

		for want, cfg := range map[string]Config{
			"Tick 1s, can't be changed from 10ms":               {Timeout: 10 * time.Second, Tick: time.Second},
			"Activity manual, can't be changed from read":       {Activity: ActivityManual},
			"Full evict, can't be changed from reject":          {Room: Room{Full: 2, MaxConns: 5}},
			"Timeout -1s, must be at least 1ms":                 {Timeout: -time.Second},
			"Probe.After 1m0s and Probe.Timeout 0s, must be at": {Probe: Probing{After: time.Minute}},
		} {
			before := k.Config()
			require.ErrorContains(t, k.Update(cfg), want)
			require.ErrorIs(t, k.Update(cfg), ErrArgument)
			require.Equal(t, before.Timeout, k.Config().Timeout)
		}
	})
}

func TestPressureShortensTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used atomic.Uint64
		set := func(u float64) { used.Store(math.Float64bits(u)) }
		k := newKeeper(t, Config{
			Timeout: 60 * time.Second,
			Room:    Room{Pressure: Pressure{Timeout: 10 * time.Second, Used: func() float64 { return math.Float64frombits(used.Load()) }}},
		})
		open := func() (net.Conn, time.Time) {
			c, _ := pipe(k)
			return c, time.Now()
		}
		c, begin := open()
		requireClosed(t, k, c, ReasonIdle, begin, 60*time.Second)
		require.Zero(t, k.Stats().Reduction)
		set(0.90)
		time.Sleep(5 * time.Second)
		c, begin = open()
		requireClosed(t, k, c, ReasonIdle, begin, 35*time.Second)
		require.InDelta(t, 0.5, k.Stats().Reduction, 1e-9)
		set(0.99)
		c, begin = open()
		requireClosed(t, k, c, ReasonIdle, begin, 10*time.Second)

		// Pressure reaches connections silent already, and lets go again.
		set(0)
		c, begin = open()
		other, _ := open()
		_, err := Of(other).SetTimeout(120 * time.Second)
		require.NoError(t, err)
		time.Sleep(25 * time.Second)
		set(1)
		_, err = io.Copy(io.Discard, c)
		require.ErrorIs(t, err, ErrIdleTimeout)
		require.LessOrEqual(t, time.Since(begin), 35*time.Second+200*ms, "at the next look")
		_, err = io.Copy(io.Discard, other)
		require.ErrorIs(t, err, ErrIdleTimeout)
		require.GreaterOrEqual(t, time.Since(begin), 40*time.Second-200*ms, "looked at each 20s")
		set(0)
		c, _ = open()
		set(1)
		time.Sleep(5 * time.Second)
		require.NoError(t, k.Update(Config{Timeout: 60 * time.Second}), "no pressure any more")
		begin = time.Now().Add(-5 * time.Second)
		requireClosed(t, k, c, ReasonIdle, begin, 60*time.Second)
		cfg := k.Config()
		cfg.Room.Pressure.Timeout = 10 * time.Second
		require.NoError(t, k.Update(cfg))
		c, _ = open()
		time.Sleep(11 * time.Second)
		require.True(t, Touch(c))
		begin = time.Now()
		requireClosed(t, k, c, ReasonIdle, begin, 60*time.Second)
	})
}

func TestAdvisorCountsSilences(t *testing.T) {
	for _, dry := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(t, Config{Timeout: 80 * time.Second, Advise: true, Closing: Closing{DryRun: dry}})
			conn, _ := pipe(k)
			for _, silence := range []int{5, 15, 35, 55, 62, 68, 75} { // seconds, of eighty
				time.Sleep(time.Duration(silence) * time.Second)
				require.True(t, Touch(conn))
			}
			if dry {
				for _, silence := range []int{90, 130, 1000} {
					time.Sleep(time.Duration(silence) * time.Second)
					require.True(t, Touch(conn))
				}
			} else {
				begin := time.Now()
				requireClosed(t, k, conn, ReasonIdle, begin, 80*time.Second)
			}
			time.Sleep(11 * time.Second)
			a := k.Stats()
			require.EqualValues(t, 2, a.NearMisses, "68 and 75, of which the limit is 64")
			var counts []uint64
			for _, s := range a.Silences {
				counts = append(counts, s.Count)
			}
			if dry {
				//                       10 20 30 40 50 60 64 70 80 100 120 140 160
				require.Equal(t, []uint64{10, 8, 8, 7, 7, 6, 5, 4, 3, 2, 2, 1, 1}, counts)
				require.EqualValues(t, 7, wouldClose(a, 0.5))
				require.EqualValues(t, 6, wouldClose(a, 0.75))
				require.EqualValues(t, 3, wouldClose(a, 1))
				require.EqualValues(t, 2, wouldClose(a, 1.5))
				require.EqualValues(t, 1, wouldClose(a, 2))
				require.EqualValues(t, 1, wouldClose(a, 9))
				require.Zero(t, wouldClose(a, 0.1))
				require.EqualValues(t, 3, k.Stats().WouldClose[ReasonIdle])
				require.Equal(t, 1, k.Len())
			} else {
				require.Equal(t, []uint64{7, 6, 6, 5, 5, 4, 3, 2, 1, 0, 0, 0, 0}, counts)
				require.EqualValues(t, 80*time.Second, a.Silences[8].Length)
				require.InDelta(t, 1, a.Silences[8].Share, 0)
			}
			require.Empty(t, newKeeper(t, Config{}).Stats().Silences)
		})
	}
}

func TestDryRunClosesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 10 * time.Second, Age: Age{Max: time.Minute}, FirstMessage: 5 * time.Second, Closing: Closing{DryRun: true}})
		conn, _ := pipe(k)
		time.Sleep(6 * time.Second)
		require.EqualValues(t, 1, k.Stats().WouldClose[ReasonFirstMessage])
		require.True(t, Touch(conn))
		time.Sleep(20 * time.Second)
		require.EqualValues(t, 1, k.Stats().WouldClose[ReasonIdle])
		require.True(t, Touch(conn))
		time.Sleep(time.Hour)
		s := k.Stats()
		require.EqualValues(t, 2, s.WouldClose[ReasonIdle])
		require.EqualValues(t, 1, s.WouldClose[ReasonMaxAge])
		require.Empty(t, s.Closed)
		require.Equal(t, 1, k.Len())
	})
}

func TestUpdateKeepsWhatCannotChange(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	room := Room{MaxConns: 5, Full: FullEvict, MinIdle: time.Minute}
	k := newKeeper(t, Config{Tick: 20 * ms, Logger: logger, Room: room})
	require.NoError(t, k.Update(Config{Room: room}), "zero means the same")
	require.Equal(t, 20*ms, k.Config().Tick)
	require.Same(t, logger, k.Config().Logger)
	require.EqualError(t, k.Update(Config{Room: room, Logger: slog.Default()}), "keepalive: invalid argument: Logger, can't be changed")
	room.MinIdle = 2 * time.Minute
	require.EqualError(t, k.Update(Config{Room: room}), "keepalive: invalid argument: Room.MinIdle 2m0s, can't be changed from 1m0s")
}

// The counts are of shares of the Timeout, so another Timeout begins anew.
func TestUpdateKeepsTheCountsOfTheSameTimeout(t *testing.T) {
	k := newKeeper(t, Config{})
	advisor := func(timeout time.Duration, advise bool) *advisor {
		require.NoError(t, k.Update(Config{Timeout: timeout, Advise: advise}))
		return k.policy.Load().advisor
	}
	first := advisor(time.Minute, true)
	require.NotNil(t, first)
	require.Same(t, first, advisor(time.Minute, true))
	other := advisor(2*time.Minute, true)
	require.NotNil(t, other)
	require.NotSame(t, first, other)
	require.Nil(t, advisor(2*time.Minute, false))
	_, nearMisses := k.advice(k.policy.Load())
	require.Zero(t, nearMisses)
}

func TestChangesOfAConnectionAreChecked(t *testing.T) {
	k := newKeeper(t, Config{Rate: Rate{MinBeat: time.Second}})
	c, _ := pipe(k)
	g := Of(c)
	require.NoError(t, g.SetActivity(ActivityReadWrite))
	require.Equal(t, rules.ReadsWrite, g.life())
	require.NoError(t, g.SetActivity(ActivityManual))
	require.ErrorIs(t, g.SetActivity(7), ErrArgument)
	require.ErrorIs(t, g.SetActivity(ActivityKernel), ErrArgument, "with MinBeat New would refuse it, too")
	require.Equal(t, rules.Touches, g.life())
	_, err := g.SetTimeout(0)
	require.ErrorIs(t, err, ErrArgument)

	require.NoError(t, c.Close())
	require.ErrorIs(t, g.SetActivity(ActivityManual), ErrNotGuarded)
	_, err = g.SetTimeout(time.Second)
	require.ErrorIs(t, err, ErrNotGuarded)
	for _, beat := range []time.Duration{0, time.Second} {
		_, err = g.SetInterval(beat)
		require.ErrorIs(t, err, ErrNotGuarded)
	}
}

// It begins now, also if the silence was looked at before.
func TestATimeoutOfItsOwnBeginsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 10 * time.Minute})
		c, peer := pipe(k)
		defer peer.Close()
		time.Sleep(5 * time.Minute)
		require.True(t, Of(c).quiet())
		begun := time.Now()
		in, err := Of(c).SetTimeout(time.Minute)
		require.NoError(t, err)
		require.Equal(t, time.Minute, in)
		requireClosed(t, k, c, ReasonIdle, begun, time.Minute)

		c, peer = pipe(k)
		defer peer.Close()
		_, err = Of(c).SetTimeout(time.Minute)
		require.NoError(t, err)
		begun = time.Now()
		in, err = Of(c).SetInterval(0)
		require.NoError(t, err)
		require.Equal(t, 10*time.Minute, in)
		requireClosed(t, k, c, ReasonIdle, begun, 10*time.Minute)
	})
}

func TestLengthsOfSilences(t *testing.T) {
	reached := func(silence, timeout time.Duration, heard bool) (n int, near bool) {
		var l lengths
		l.add(silence, timeout, heard)
		for _, count := range l.reached {
			n += int(count)
		}
		return n, l.nearMisses == 1
	}
	const timeout = 16 * time.Second
	for _, c := range []struct {
		silence, timeout time.Duration
		reached          int
		near             bool
	}{
		{2*time.Second - 1, timeout, 0, false},
		{2 * time.Second, timeout, 1, false},
		{12800*ms - 1, timeout, 6, false},
		{12800 * ms, timeout, 7, true},
		{16*time.Second - 1, timeout, 8, true},
		{16 * time.Second, timeout, 9, false},
		{32 * time.Second, timeout, 13, false},
		{time.Hour, timeout, 13, false},
		{time.Hour, math.MaxInt64, 0, false},
		{math.MaxInt64, math.MaxInt64, 9, false},
	} {
		n, near := reached(c.silence, c.timeout, true)
		require.Equal(t, c.reached, n, "%v of %v", c.silence, c.timeout)
		require.Equal(t, c.near, near, "%v of %v", c.silence, c.timeout)
		_, near = reached(c.silence, c.timeout, false)
		require.False(t, near, "nobody was heard")
	}
}

// A look at all connections may see a silence that has ended meanwhile, and no counter shrinks.
func TestCountsOfSilencesNeverShrink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 80 * time.Second, Advise: true})
		c, peer := pipe(k)
		defer peer.Close()
		time.Sleep(41 * time.Second)
		require.EqualValues(t, 1, wouldClose(k.Stats(), 0.5))
		_, err := Of(c).SetTimeout(80 * time.Second) // ends the silence, and nobody was heard
		require.NoError(t, err)
		require.EqualValues(t, 1, wouldClose(k.Stats(), 0.5))
		release := Of(c).Hold()
		time.Sleep(79 * time.Second)
		release()
		require.EqualValues(t, 1, wouldClose(k.Stats(), 0.5), "held")
	})
}
