package keepalive

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

func drained(t *testing.T, c net.Conn) {
	go func() { _, _ = io.Copy(io.Discard, c) }()
	t.Cleanup(func() { _ = c.Close() })
}

// After Update has switched pressure off, the full timeout counts again.
func TestPressureSwitchedOffKillsEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Timeout: time.Hour, Room: Room{Pressure: Pressure{Used: func() float64 { return 1 }, Timeout: 30 * time.Minute}}}
		k := newKeeper(t, cfg)
		conn, _ := pipe(k)
		time.Sleep(2 * time.Minute)
		require.EqualValues(t, 1, k.Stats().Reduction)
		require.True(t, Touch(conn))
		cfg.Room.Pressure.Used, cfg.Room.Pressure.Timeout = nil, 0
		require.NoError(t, k.Update(cfg))
		for range 30 { // a beat every 90 seconds, with a timeout of an hour
			time.Sleep(90 * time.Second)
			require.True(t, Touch(conn), "closed although it was touched 90 s ago: %v", k.Stats().Closed)
		}
	})
}

// The first message comes within the tick of the accept, and FirstMessage is the hop.
func TestFirstMessageInTheFirstTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 5 * time.Minute, FirstMessage: time.Minute})
		conn, _ := pipe(k)
		require.True(t, Touch(conn)) // at once
		time.Sleep(2 * time.Minute)
		require.EqualValues(t, 1, k.Len(), "closed before its timeout of 5m: %v", k.Stats().Closed)
	})
}

// The same for a touch FirstMessage-hop after the accept.
func TestFirstMessageCollidesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 5 * time.Minute, FirstMessage: 90 * time.Second})
		conn, _ := pipe(k)
		time.Sleep(30*time.Second + 50*ms)
		require.True(t, Touch(conn))
		time.Sleep(2 * time.Minute)
		require.EqualValues(t, 1, k.Len(), "closed before its timeout of 5m: %v", k.Stats().Closed)
	})
}

// ReadIdle is never early, even if the socket can't tell.
func TestReadIdleEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, Tick: time.Second, ReadIdle: 2 * time.Second})
		conn, peer := pipe(k)
		time.Sleep(1990 * ms)
		go func() { _, _ = peer.Write([]byte("x")) }()
		_, err := conn.Read(make([]byte, 1))
		require.NoError(t, err)
		read := time.Now()
		_, err = conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, ReasonReadIdle)
		require.GreaterOrEqual(t, time.Since(read), 2*time.Second)
	})
}

// The time of a hold does not count in ReadIdle after the release.
func TestHoldAndReadIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, ReadIdle: 10 * time.Second})
		conn, _ := pipe(k)
		release := Of(conn).Hold()
		time.Sleep(39 * time.Second)
		release()
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, k.Len(), "closed %v after the release, ReadIdle is 10s: %v", 5*time.Second, k.Stats().Closed)
	})
}

// A byte read while OnIdle is asked about ReadIdle saves the connection.
func TestReadWhileOnIdleIsAskedAboutReadIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, ReadIdle: 10 * time.Second, OnIdle: func(any, Reason) Verdict {
			time.Sleep(time.Second)
			return Close
		}})
		conn, peer := pipe(k)
		drained(t, conn)
		time.Sleep(10500 * ms) // OnIdle is running
		_, err := peer.Write([]byte("x"))
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, k.Len(), "read 5s ago, ReadIdle is 10s: %v", k.Stats().Closed)
	})
}

// A byte read while the rate does not allow the close saves from ReadIdle.
func TestReadSavesFromReadIdleAboveTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, ReadIdle: 10 * time.Second, Closing: Closing{MaxPerSecond: 1}})
		var peers []net.Conn
		for range 10 {
			conn, peer := pipe(k)
			drained(t, conn)
			peers = append(peers, peer)
		}
		time.Sleep(11 * time.Second)
		before := k.Len()
		require.Greater(t, before, 5)
		for range 20 {
			for _, p := range peers {
				_ = p.SetWriteDeadline(time.Now().Add(time.Millisecond))
				_, _ = p.Write([]byte("x"))
			}
			time.Sleep(time.Second)
		}
		require.GreaterOrEqual(t, k.Len(), before-1, "they were heard meanwhile")
	})
}

// A dry run counts a long read silence once, not at each tick.
func TestDryRunReadIdleCountsEachTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, ReadIdle: 10 * time.Second, Closing: Closing{DryRun: true}})
		_, _ = pipe(k)
		time.Sleep(time.Minute)
		require.LessOrEqual(t, k.Stats().WouldClose[ReasonReadIdle], uint64(6))
	})
}

// In a dry run, a failed probe closes nobody.
func TestDryRunProbeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Closing: Closing{DryRun: true}, Probe: Probing{Send: func(any) error { return errors.New("no") }}})
		_, _ = pipe(k)
		time.Sleep(2 * time.Minute)
		require.Equal(t, 1, k.Len(), "%v", k.Stats().Closed)
	})
}

// After a dry run, silent connections are closed.
func TestAfterDryRunTheDeadStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Closing: Closing{DryRun: true}})
		_, _ = pipe(k)
		time.Sleep(5 * time.Minute)
		require.NoError(t, k.Update(Config{Timeout: time.Minute}))
		time.Sleep(2 * time.Minute)
		require.Zero(t, k.Len())
	})
}

// Even a timeout of a day is late by seconds at most.
func TestLongTimeoutIsLate(t *testing.T) {
	timeouts := []time.Duration{time.Hour, 6 * time.Hour}
	if testmain.Race {
		timeouts = timeouts[:1] // a wheel of 10 ms wakes 2 million times in 6 hours
	}
	for _, timeout := range timeouts {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, Config{Timeout: timeout})
				conn, _ := pipe(k)
				begin := time.Now()
				_, _ = conn.Read(make([]byte, 1))
				t.Logf("%v: late by %v", timeout, time.Since(begin)-timeout)
				if late := time.Since(begin) - timeout; late > 2*time.Second {
					t.Errorf("%v: late by %v", timeout, late)
				}
			})
		})
	}
}

// Rescued connections delay no dead connection.
func TestRescuedConnectionsDelayNoDeadOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 10 * time.Second, Closing: Closing{MaxPerSecond: 10}})
		var conns []net.Conn
		for range 1000 {
			c, _ := pipe(k)
			conns = append(conns, c)
		}
		time.Sleep(10300 * ms) // all wait for the rate
		lived := 0
		for _, c := range conns {
			if Touch(c) { // and rescued
				lived++
				beatEvery(t, c, 5*time.Second)
			}
		}
		require.Greater(t, lived, 950)
		dead, _ := pipe(k)
		begin := time.Now()
		_, err := dead.Read(make([]byte, 1))
		require.ErrorIs(t, err, ErrIdleTimeout)
		require.Less(t, time.Since(begin), 12*time.Second, "nobody else is being closed")
		for _, c := range conns {
			_ = c.Close()
		}
	})
}

// Frequent updates do not put ReadIdle off.
func TestUpdatesPutReadIdleOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Timeout: time.Minute, ReadIdle: 20 * time.Second, Activity: ActivityManual}
		k := newKeeper(t, cfg)
		conn, _ := pipe(k)
		beatEvery(t, conn, time.Second)
		for range 30 {
			time.Sleep(15 * time.Second)
			require.NoError(t, k.Update(cfg))
		}
		require.Zero(t, k.Len(), "nothing was read for 450s, ReadIdle is 20s")
	})
}

// An Update reaches a connection even if something was remembered of it in between.
func TestHoldAfterUpdateLosesTheUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, Activity: ActivityManual})
		plain, _ := pipe(k)
		asked, _ := pipe(k)
		beatEvery(t, plain, 20*time.Second)
		beatEvery(t, asked, 20*time.Second)
		time.Sleep(time.Second)
		require.NoError(t, k.Update(Config{Timeout: 5 * time.Second, Tick: 10 * ms, Activity: ActivityManual}))
		Of(asked).Context()
		time.Sleep(10 * time.Minute)
		require.False(t, Touch(plain))
		require.False(t, Touch(asked), "a beat each 20s, a timeout of 5s since 10 minutes")
	})
}

// If Update adds an Age.Max, the age of every connection counts from then, with or without a
// state.
func TestMaxAgeByUpdateClosesThoseWithDetailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Timeout: time.Minute}
		k := newKeeper(t, cfg)
		plain, _ := pipe(k)
		mqtt, _ := pipe(k)
		_, err := Of(mqtt).SetInterval(30 * time.Second)
		require.NoError(t, err)
		beatEvery(t, plain, 10*time.Second)
		beatEvery(t, mqtt, 10*time.Second)
		time.Sleep(50 * time.Minute)
		cfg.Age.Max = 10 * time.Minute
		require.NoError(t, k.Update(cfg))
		time.Sleep(2 * time.Minute)
		require.True(t, Touch(plain))
		require.True(t, Touch(mqtt), "for connections that had no MaxAge, it counts from then")
		_ = plain.Close()
		_ = mqtt.Close()
	})
}

// A timeout near the largest duration must not overflow under full pressure.
func TestPressureOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: math.MaxInt64, Room: Room{Pressure: Pressure{Used: func() float64 { return 1 }, Timeout: 10 * time.Minute}}})
		_, _ = pipe(k)
		time.Sleep(9 * time.Minute)
		require.Equal(t, 1, k.Len(), "%v", k.Stats().Closed)
	})
}

// With probes, too, a silence is counted once.
func TestAdvisorWithProbeCountsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Advise: true, Closing: Closing{DryRun: true}, Probe: Probing{Send: func(any) error { return nil }}})
		_, _ = pipe(k)
		time.Sleep(10 * time.Minute)
		a := k.Stats()
		require.EqualValues(t, 0, a.NearMisses)
		require.EqualValues(t, 1, wouldClose(a, 0.25), "%+v", a.Silences)
	})
}

// Without a dry run, a silence is counted beyond its probe.
func TestAdvisorWithoutDryRunSeesNothingAfterProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Advise: true, Probe: Probing{Send: func(any) error { return nil }}})
		_, _ = pipe(k)
		time.Sleep(10 * time.Minute)
		require.Zero(t, k.Len())
		a := k.Stats()
		require.EqualValues(t, 1, wouldClose(a, 0.75), "%+v", a.Silences)
	})
}

// SetTimeout before the first message does not end FirstMessage.
func TestSetTimeoutEndsFirstMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, FirstMessage: 3 * time.Second})
		conn, _ := pipe(k)
		_, err := Of(conn).SetTimeout(time.Hour)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Zero(t, k.Len(), "its peer has not been heard for a minute")
	})
}

// The result of Config is a valid argument of Update.
func TestConfigUpdateRoundTrip(t *testing.T) {
	k := newKeeper(t, Config{Age: Age{Max: time.Hour, Jitter: -1}})
	require.NoError(t, k.Update(k.Config()))
	require.Negative(t, k.Config().Age.Jitter)
}

func TestUpdateToAShortTimeout(t *testing.T) {
	k := newKeeper(t, Config{})
	require.NoError(t, k.Update(Config{Timeout: 500 * ms}))
}

// Resume ends a Drain.
func TestResumeWhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute})
		for range 10 {
			_, _ = pipe(k)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- k.Drain(ctx, 10*time.Second) }()
		time.Sleep(5500 * ms)
		k.Resume()
		conn, _ := pipe(k)
		require.True(t, Touch(conn))
		time.Sleep(10 * time.Second)
		alive := Touch(conn)
		cancel()
		<-done
		require.True(t, alive, "new connections are taken again: %v", k.Stats().Closed)
	})
}

// Held connections are not evicted, and don't stop the eviction of others.
func TestHeldConnectionsStopEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, Room: Room{MaxConns: 100, Full: FullEvict}})
		for range 70 {
			c, _ := pipe(k)
			defer Of(c).Hold()()
		}
		for range 30 {
			_, _ = pipe(k)
			time.Sleep(200 * ms)
		}
		time.Sleep(time.Minute)
		for range 100 {
			_, _ = pipe(k)
			time.Sleep(10 * time.Second)
			require.LessOrEqual(t, k.Len(), 120, "%v", k.Stats().Closed)
		}
		require.Zero(t, k.Stats().RefusedFull)
	})
}

// deadConn has a CloseWrite without effect. The deadlines of a handler must not prolong
// CloseHalf.
type deadConn struct {
	net.Conn
}

func (deadConn) CloseWrite() error { return nil }

func unwrapDead(c net.Conn) net.Conn {
	if dead, ok := c.(deadConn); ok {
		return dead.Conn
	}
	return nil
}

func TestUsersDeadlineOutlivesFarewell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closings
		k := newKeeper(t, Config{Timeout: 10 * time.Second, Closing: Closing{Mode: CloseHalf}, OnClose: c.add, Unwrap: unwrapDead})
		a, b := net.Pipe()
		defer b.Close()
		conn := k.Conn(deadConn{a})
		stop := make(chan struct{})
		go func() { // a handler with a deadline for each read
			defer close(stop)
			time.Sleep(10500 * ms) // busy with the message before
			_ = conn.SetReadDeadline(time.Now().Add(time.Hour))
			_, _ = conn.Read(make([]byte, 1))
		}()
		time.Sleep(time.Minute)
		n := len(c.list())
		_ = conn.Close()
		<-stop
		synctest.Wait()
		require.Equal(t, 1, n, "not closed a minute after FarewellTimeout")
	})
}

// A context is done after Keeper.Close.
func TestContextAfterKeeperClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{})
		conn, _ := pipe(k)
		ctx := Of(conn).Context()
		require.NoError(t, k.Close())
		_ = conn.Close()
		synctest.Wait()
		require.Error(t, ctx.Err(), "the connection is closed")
	})
}

// The verdict Probe is good for one probe.
func TestVerdictProbeForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{
			Timeout: time.Minute,
			Probe:   Probing{After: 10 * time.Second, Timeout: 10 * time.Second, Send: func(any) error { return nil }},
			OnIdle:  func(any, Reason) Verdict { return Probe },
		})
		_, _ = pipe(k)
		time.Sleep(time.Hour)
		require.Zero(t, k.Len(), "closed with ReasonNoAnswer unless there is life within ProbeTimeout; probes %d", k.Stats().Probes)
	})
}

func TestIgnoreReadIdleIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		k := newKeeper(t, Config{Timeout: time.Hour, ReadIdle: 10 * time.Second, OnIdle: func(any, Reason) Verdict {
			asked.Add(1)
			return Ignore
		}})
		_, _ = pipe(k)
		time.Sleep(10 * time.Minute)
		require.EqualValues(t, 1, asked.Load(), "OnIdle is not asked again before the peer has been heard")
	})
}

// A Read may come between tell's looks at the clock and at the last read.
func TestToldUnderflow(t *testing.T) {
	k := newKeeper(t, Config{ReadIdle: time.Minute})
	g, _ := pipe(k)
	c := g.(*conn)
	c.noted.lastRead.since.Add(int64(time.Hour)) // Read came between the two looks
	look, _ := c.guard.look()
	require.LessOrEqual(t, look.Received, k.now())
}

// An ignored connection is still the idlest, and its Idle goes on.
func TestIdleOfIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, OnIdle: func(any, Reason) Verdict { return Ignore }})
		old, _ := pipe(k)
		time.Sleep(time.Hour)
		young, _ := pipe(k)
		time.Sleep(time.Second)
		require.Greater(t, idleOf(Of(old)), idleOf(Of(young)))
		info, ok := Of(old).Info()
		require.True(t, ok)
		require.GreaterOrEqual(t, info.Idle, 59*time.Minute)
	})
}

// A dry run evicts nobody.
func TestDryRunEvicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, Room: Room{MaxConns: 1, Full: FullEvict}, Closing: Closing{DryRun: true}})
		_, _ = pipe(k)
		time.Sleep(time.Minute)
		_, _ = pipe(k)
		time.Sleep(time.Second)
		require.Zero(t, k.Stats().Closed[ReasonEvicted])
	})
}

// speechless takes no bytes and no deadlines. Its farewell must end in time all the same.
type speechless struct {
	net.Conn
	closed chan struct{}
}

func (s speechless) Write([]byte) (int, error)   { <-s.closed; return 0, net.ErrClosed }
func (s speechless) SetDeadline(time.Time) error { return net.UnknownNetworkError("no deadlines") }
func (s speechless) Close() error {
	defer func() { _ = recover() }()
	close(s.closed)
	return s.Conn.Close()
}

func TestFarewellWithoutDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closings
		k := newKeeper(t, Config{Timeout: 10 * time.Second, OnClose: c.add, Closing: Closing{Farewell: func(any, Reason) []byte { return []byte("bye") }}})
		a, _ := net.Pipe()
		s := speechless{a, make(chan struct{})}
		k.Conn(s)
		time.Sleep(time.Hour)
		n := len(c.list())
		if n == 0 {
			_ = s.Close()
		}
		synctest.Wait()
		require.Equal(t, 1, n, "FarewellTimeout bounds the farewell")
	})
}

// After the end by CloseHalf, the last bytes of the peer are not for the program's reads.
func TestReadAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{
			Timeout: 10 * time.Second, Closing: Closing{Mode: CloseHalf, Timeout: 5 * time.Second},
			Unwrap: unwrapDead,
		})
		a, b := net.Pipe()
		conn := k.Conn(deadConn{a})
		got := make(chan error, 1)
		go func() {
			time.Sleep(12 * time.Second)
			for range 20 {
				n, err := conn.Read(make([]byte, 1))
				if n > 0 {
					got <- nil
					return
				}
				if err != nil {
					got <- err
					return
				}
			}
		}()
		go func() {
			time.Sleep(12500 * ms)
			for range 20 {
				_ = b.SetWriteDeadline(time.Now().Add(time.Second))
				_, _ = b.Write([]byte("x"))
			}
		}()
		err := <-got
		time.Sleep(time.Minute)
		_ = conn.Close()
		require.ErrorIs(t, err, ErrIdleTimeout)
	})
}

func TestExtremes(t *testing.T) {
	silly, err := New(Config{Timeout: math.MaxInt64, Tick: math.MaxInt64})
	if err == nil {
		a, _ := net.Pipe()
		if silly.Conn(a); silly.Len() == 0 {
			t.Errorf("accepted, and then its connections are not guarded")
		}
		require.NoError(t, silly.Close())
	}
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{
			Timeout:      math.MaxInt64,
			Age:          Age{Max: math.MaxInt64, Grace: math.MaxInt64},
			ReadIdle:     math.MaxInt64,
			WriteIdle:    math.MaxInt64,
			FirstMessage: math.MaxInt64,
			Rate:         Rate{MinBeat: math.MaxInt64},
			Interval:     Interval{Multiplier: 1e308},
			Probe:        Probing{Send: func(any) error { return nil }},
			Advise:       true,
		})
		c, _ := pipe(k)
		_, _, _ = Of(c).Deadline()
		d, err := Of(c).SetInterval(time.Second)
		require.NoError(t, err)
		require.EqualValues(t, int64(math.MaxInt64), d)
		at, why, ok := Of(c).Deadline()
		t.Log(at, why, ok)
		require.True(t, at.After(time.Now().Add(200*365*24*time.Hour)))
		for range 3 {
			time.Sleep(time.Hour)
			Touch(c)
		}
		require.Equal(t, 1, k.Len())
		_ = c.Close()
	})
}

// Updates come more often than windows end. They do not put Rate.MinBeat off.
func TestUpdatesPutMinBeatOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Timeout: time.Minute, Rate: Rate{MinBeat: time.Second}}
		k := newKeeper(t, cfg)
		c, _ := pipe(k)
		beatEvery(t, c, 10*ms)
		for range 100 {
			time.Sleep(9 * time.Second)
			require.NoError(t, k.Update(cfg))
		}
		n := k.Len()
		_ = c.Close()
		require.Zero(t, n, "100 beats a second for 15 minutes")
	})
}

// OnMax is told again if Update makes Max longer.
func TestOnMaxAgeIsToldOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int32
		begin := time.Now()
		cfg := Config{Timeout: time.Minute, Age: Age{Max: time.Hour, Jitter: -1, Grace: 30 * time.Minute, OnMax: func(any) { told.Add(1) }}}
		k := newKeeper(t, cfg)
		c, _ := pipe(k)
		beatEvery(t, c, 10*time.Second)
		time.Sleep(61 * time.Minute)
		require.EqualValues(t, 1, told.Load())
		cfg.Age.Max = 3 * time.Hour
		require.NoError(t, k.Update(cfg))
		for k.Len() > 0 {
			time.Sleep(time.Minute)
		}
		t.Log("closed after", time.Since(begin), "told", told.Load())
		require.EqualValues(t, 2, told.Load(), "closed hours later, without the last word")
	})
}

// Frequent updates do not put condemned connections off.
func TestUpdatesPutTheCondemnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Timeout: time.Minute, Age: Age{Max: time.Hour}, Closing: Closing{MaxPerSecond: 1}}
		k := newKeeper(t, cfg)
		var cs []net.Conn
		for range 60 {
			c, _ := pipe(k)
			cs = append(cs, c)
			beatEvery(t, c, time.Second)
		}
		time.Sleep(30 * time.Minute)
		cfg.Age.Max = time.Minute // all are due at once, within a minute
		require.NoError(t, k.Update(cfg))
		begin := time.Now()
		for range 200 {
			time.Sleep(2 * time.Second)
			require.NoError(t, k.Update(cfg))
		}
		n := k.Len()
		t.Log(time.Since(begin), n)
		for _, c := range cs {
			_ = c.Close()
		}
		require.Zero(t, n)
	})
}

// A touch between the decision to close a connection and the close saves it.
func TestTouchJustBeforeAPacedCloseSaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Closing: Closing{MaxPerSecond: 1}})
		c, _ := pipe(k)
		v := &visit{Guard: Of(c), policy: k.policy.Load()}
		require.True(t, v.mayClose())
		require.True(t, Touch(c))
		v.apply(rules.Outcome{Do: rules.Close, Why: rules.Idle})
		require.True(t, Touch(c))
	})
}
