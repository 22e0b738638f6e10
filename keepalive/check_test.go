package keepalive

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
)

// inspects is a config with one check, of connections that beat.
func inspects(name string, every time.Duration, inspect func(g *Guard, info Info) (time.Duration, Verdict)) Config {
	return Config{Timeout: time.Minute, Checks: []Check{{Name: name, Every: every, Inspect: inspect}}}
}

// beatBetween touches a connection each second, in the middle between the ticks at which its checks are due.
func beatBetween(t *testing.T, conn any) {
	go func() {
		if sleep(t.Context(), 500*ms) {
			beatEvery(t, conn, time.Second)
		}
	}()
}

func TestChecksAreChecked(t *testing.T) {
	fine := func(*Guard, Info) (time.Duration, Verdict) { return 0, Ignore }
	for _, c := range []struct {
		checks []Check
		want   string
	}{
		{[]Check{{"", time.Second, fine}}, `Checks[0].Name "", must be 1 to 40 lower-case letters, digits and underscores, from a letter on`},
		{[]Check{{"Slow", time.Second, fine}}, `Checks[0].Name "Slow", must be 1 to 40 lower-case letters, digits and underscores, from a letter on`},
		{[]Check{{strings.Repeat("a", 41), time.Second, fine}}, `Checks[0].Name "` + strings.Repeat("a", 41) + `", must be 1 to 40 lower-case letters, digits and underscores, from a letter on`},
		{[]Check{{"read_idle", time.Second, fine}}, `Checks[0].Name "read_idle", is that of a reason`},
		{[]Check{{"one", time.Second, fine}, {"two", time.Second, fine}, {"one", time.Second, fine}}, `Checks[2].Name "one", is that of Checks[0]`},
		{[]Check{{"one", 0, fine}}, `Checks[0].Every 0s, must be at least Tick 10ms`},
		{[]Check{{"one", -time.Second, fine}}, `Checks[0].Every -1s, must be at least Tick 10ms`},
		{[]Check{{"one", time.Second, nil}}, `Checks[0].Inspect, must not be nil`},
	} {
		_, err := New(Config{Checks: c.checks})
		require.ErrorIs(t, err, ErrArgument)
		require.EqualError(t, err, "keepalive: invalid argument: "+c.want)
	}
	require.NoError(t, Config{Checks: []Check{{strings.Repeat("b", 40), 10 * ms, fine}}}.Validate())
	require.Zero(t, CheckReason(strings.Repeat("b", 40)), "no Keeper has it")
	var many []Check
	for i := range maxChecks + 1 {
		many = append(many, Check{fmt.Sprint("many_", i), time.Second, fine})
	}
	_, err := New(Config{Checks: many})
	require.ErrorIs(t, err, ErrArgument)
	require.ErrorContains(t, err, fmt.Sprintf("names in this process, must be at most %d", maxChecks))
	require.Zero(t, CheckReason("many_0"))
}

// What next is, and what its next instant is.
func TestAnInspectionSaysWhenTheNextOneComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var seconds []int
		nexts := []time.Duration{0, 3 * time.Second, time.Nanosecond, 0, -1}
		cfg := inspects("next", 10*time.Second, func(_ *Guard, info Info) (next time.Duration, _ Verdict) {
			seconds = append(seconds, int(time.Since(begin).Round(time.Second)/time.Second))
			require.InDelta(t, time.Since(begin), info.Age, 1e8)
			next, nexts = nexts[0], nexts[1:]
			return next, Ignore
		})
		cfg.Tick = time.Second
		k := newKeeper(t, cfg)
		c, peer := pipe(k)
		defer peer.Close()
		beatBetween(t, c)    // puts no check off
		defer Of(c).Hold()() // nor does a hold
		time.Sleep(100 * time.Second)
		synctest.Wait()
		require.Len(t, seconds, 5)
		for i, want := range []int{10, 20, 23, 24, 34} { // each a tick or two late
			require.GreaterOrEqual(t, seconds[i], want, "%v", seconds)
			require.LessOrEqual(t, seconds[i], want+2*(i+1), "%v", seconds)
		}
		require.Equal(t, 1, k.Len())
	})
}

func TestACheckClosesByItsOwnReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		var ends []Reason
		cfg := inspects("slow_reader", 5*time.Second, func(*Guard, Info) (time.Duration, Verdict) { return 0, Close })
		cfg.OnClose = func(_ any, reason Reason) { ends = append(ends, reason) }
		cfg.Logger = log.Logger(-4)
		k := newKeeper(t, cfg)
		reason := CheckReason("slow_reader")
		require.Equal(t, "slow_reader", reason.String())
		require.EqualError(t, reason, "keepalive: closed by the check slow_reader")
		require.False(t, reason.Timeout())
		require.True(t, reason.Retryable())
		require.Contains(t, Reasons(), reason)
		begin := time.Now()
		c, peer := pipe(k)
		defer peer.Close()
		beatBetween(t, c)
		requireClosed(t, k, c, reason, begin, 5*time.Second)
		require.Equal(t, []Reason{reason}, ends)
		require.EqualValues(t, 1, k.Stats().Closed[reason])
		require.Contains(t, log.String(), "reason=slow_reader")
	})
}

func TestADryRunCountsByTheNameOfTheCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := inspects("dry", 10*time.Second, func(*Guard, Info) (time.Duration, Verdict) { return 0, Close })
		cfg.Closing.DryRun = true
		k := newKeeper(t, cfg)
		c, peer := pipe(k)
		defer peer.Close()
		beatBetween(t, c)
		time.Sleep(35 * time.Second)
		synctest.Wait()
		require.Equal(t, map[Reason]uint64{CheckReason("dry"): 3}, k.Stats().WouldClose)
		require.Empty(t, k.Stats().Closed)
	})
}

func TestTheRateBoundsTheClosesOfChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64 // of several connections at the same time
		cfg := inspects("paced", 10*time.Second, func(*Guard, Info) (time.Duration, Verdict) { calls.Add(1); return 0, Close })
		cfg.Closing.MaxPerSecond = 1
		k := newKeeper(t, cfg)
		for range 10 {
			c, peer := pipe(k)
			defer peer.Close()
			beatBetween(t, c)
		}
		time.Sleep(14*time.Second + 500*ms)
		synctest.Wait()
		require.InDelta(t, 5, k.Stats().Closed[CheckReason("paced")], 1)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 10, k.Stats().Closed[CheckReason("paced")])
		require.EqualValues(t, 10, calls.Load(), "each is asked once")
	})
}

// The peer was heard while the user inspected its connection.
func TestATouchDuringAnInspectionVoidsItsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		k := newKeeper(t, inspects("void", 10*time.Second, func(g *Guard, _ Info) (time.Duration, Verdict) {
			if calls++; calls == 1 {
				g.Touch()
			}
			return 0, Close
		}))
		begin := time.Now()
		c, peer := pipe(k)
		defer peer.Close()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, k.Len())
		requireClosed(t, k, c, CheckReason("void"), begin, 20*time.Second)
		require.Equal(t, 2, calls)
	})
}

func TestAnInspectionThatFailsLeavesTheConnection(t *testing.T) {
	for name, fail := range map[string]func() Verdict{
		"panic":           func() Verdict { panic("as tested") },
		"goexit":          func() Verdict { runtime.Goexit(); return Close },
		"another verdict": func() Verdict { return Extend(time.Second) },
		"no verdict":      func() Verdict { return -9 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logtest.Log
				calls := 0
				cfg := inspects("fails", 10*time.Second, func(*Guard, Info) (time.Duration, Verdict) {
					if calls++; calls == 3 {
						return 0, Close
					}
					return 0, fail()
				})
				cfg.Logger = log.Logger(0)
				k := newKeeper(t, cfg)
				begin := time.Now()
				c, peer := pipe(k)
				defer peer.Close()
				beatBetween(t, c)
				requireClosed(t, k, c, CheckReason("fails"), begin, 30*time.Second)
				require.Equal(t, 3, calls)
				require.Equal(t, name == "panic", strings.Contains(log.String(), "Checks fails: as tested"))
			})
		})
	}
}

// An inspection may close its connection itself, and others may.
func TestAnInspectionMayEndItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, end := range map[string]func(g *Guard){
			"guard": func(g *Guard) { g.Close(ReasonTooSlow) },
			"conn":  func(g *Guard) { g.conn.(net.Conn).Close() },
		} {
			k := newKeeper(t, inspects("ends", time.Second, func(g *Guard, _ Info) (time.Duration, Verdict) {
				end(g)
				return 0, Close
			}))
			_, peer := pipe(k)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			require.Zero(t, k.Len(), name)
			require.Empty(t, k.Stats().Closed[CheckReason("ends")], name)
			peer.Close()
		}
	})
}

func TestUpdateOfChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := map[string]int{}
		check := func(name string, every time.Duration) Check {
			return Check{name, every, func(*Guard, Info) (time.Duration, Verdict) { calls[name]++; return 0, Ignore }}
		}
		k := newKeeper(t, Config{Timeout: 300 * ms})
		c, peer := pipe(k)
		defer peer.Close()
		beatEvery(t, c, 70*ms)
		update := func(checks ...Check) {
			synctest.Wait()
			clear(calls)
			require.NoError(t, k.Update(Config{Timeout: 300 * ms, Checks: checks}))
		}
		update(check("one", 10*time.Second), check("two", 4*time.Second))
		time.Sleep(22 * time.Second) // an update is seen within the timeout
		synctest.Wait()
		require.Equal(t, map[string]int{"one": 2, "two": 5}, calls)
		for range 10 { // the same ones go on
			update(check("two", 4*time.Second))
			time.Sleep(3 * time.Second)
			synctest.Wait()
			update(check("two", 4*time.Second))
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Equal(t, 1, calls["two"])
			update(check("two", 4*time.Second), check("three", time.Hour))
		}
		update()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, calls)
		checks := []Check{check("mine", 10*time.Second)}
		update(checks...)
		checks[0].Inspect = nil // the Keeper's are a copy
		k.Config().Checks[0].Inspect = nil
		time.Sleep(15 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, calls["mine"])
		require.ErrorIs(t, k.Update(Config{Checks: make([]Check, 1)}), ErrArgument)
	})
}

// What the example's policy does, to the second: the average round trip of the pings is above 200 ms for five seconds.
func TestAnAverageRoundTripThatIsTooLongForTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, during = 200 * ms, 5 * time.Second
		cfg := inspects("slow_round_trip", 500*ms, func(g *Guard, info Info) (time.Duration, Verdict) {
			switch above, _ := g.Value().(time.Duration); {
			case info.MeanRoundTrip <= limit:
				g.SetValue(nil)
			case above == 0:
				g.SetValue(info.Age)
			case info.Age-above >= during:
				return 0, Close
			}
			return 0, Ignore
		})
		cfg.Timeout = 30 * time.Second
		cfg.Probe = Probing{After: time.Second, Timeout: 10 * time.Second, Send: func(conn any) error {
			_, err := conn.(io.Writer).Write([]byte("ping"))
			return err
		}}
		k := newKeeper(t, cfg)
		slow := 10 * time.Second // from then on it answers in 400 ms
		begin := time.Now()
		client := func(answers func() time.Duration) net.Conn {
			c, peer := pipe(k)
			go func() {
				defer peer.Close()
				for buf := make([]byte, 4); ; {
					if _, err := io.ReadFull(peer, buf); err != nil {
						return
					}
					time.Sleep(answers())
					Of(c).Pong()
				}
			}()
			return c
		}
		quick := client(func() time.Duration { return 50 * ms })
		other := client(func() time.Duration {
			if time.Since(begin) < slow {
				return 50 * ms
			}
			return 400 * ms
		})
		_, err := io.Copy(io.Discard, other)
		require.ErrorIs(t, err, CheckReason("slow_round_trip"))
		require.Greater(t, time.Since(begin), slow+during)
		require.Less(t, time.Since(begin), slow+during+15*time.Second, "until the average is above the limit")
		info, ok := Of(quick).Info()
		require.True(t, ok)
		require.InDelta(t, 50*ms, info.MeanRoundTrip, float64(11*ms))
		require.NoError(t, quick.Close())
		time.Sleep(time.Second) // the answers under way
	})
}

// A Close that the peer's heartbeat makes void is no end of a check that wanted to come once only.
func TestALastInspectionComesAgainAfterAVoidClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		k := newKeeper(t, inspects("once", 10*time.Second, func(g *Guard, _ Info) (time.Duration, Verdict) {
			if calls++; calls == 1 {
				g.Touch()
			}
			return -1, Close
		}))
		begin := time.Now()
		c, peer := pipe(k)
		defer peer.Close()
		beatBetween(t, c)
		requireClosed(t, k, c, CheckReason("once"), begin, 20*time.Second)
		require.Equal(t, 2, calls)
	})
}
