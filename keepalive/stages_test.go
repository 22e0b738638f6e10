package keepalive

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
)

// prober counts probes by connection, and when they came.
type prober struct {
	mu    sync.Mutex
	times map[any][]time.Time
}

func (p *prober) probe(conn any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.times == nil {
		p.times = map[any][]time.Time{}
	}
	p.times[conn] = append(p.times[conn], time.Now())
	return nil
}

func (p *prober) of(conn any) []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.times[conn]
}

func TestSilentPeerIsProbedBeforeItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p prober
		k := newKeeper(t, Config{
			Timeout: time.Minute,
			Probe:   Probing{Send: p.probe, After: 20 * time.Second, Timeout: 5 * time.Second, Count: 3},
		})
		begin := time.Now()
		silent, _ := pipe(k)
		busy, _ := pipe(k)
		answers, _ := pipe(k)
		beatEvery(t, busy, 14*time.Second)
		go func() {
			for answered := 0; sleep(t.Context(), 100*ms); {
				times := p.of(answers)
				n := len(times)
				if n == answered || n%3 > 0 || time.Since(times[n-1]) < 4900*ms {
					continue
				}
				answered = n // in the last moment
				trip, ok := Of(answers).Pong()
				require.True(t, ok)
				require.GreaterOrEqual(t, trip, 14900*ms, "since the first probe")
				require.Less(t, trip, 15300*ms)
				require.Equal(t, trip, roundTrip(answers))
				trip, ok = Of(answers).Pong()
				require.True(t, ok)
				require.Zero(t, trip, "answered already")
			}
		}()
		_, why, ok := Of(silent).Deadline()
		require.True(t, ok)
		require.Equal(t, ReasonNoAnswer, why)
		_, err := io.Copy(io.Discard, silent)
		require.ErrorIs(t, err, ReasonNoAnswer)
		times := p.of(silent)
		require.Len(t, times, 3)
		require.GreaterOrEqual(t, times[0].Sub(begin), 15*time.Second)
		require.LessOrEqual(t, times[0].Sub(begin), 20*time.Second+200*ms)
		require.GreaterOrEqual(t, time.Since(begin), 35*time.Second)
		require.LessOrEqual(t, time.Since(begin), 36*time.Second)
		for i, gap := range []time.Duration{times[1].Sub(times[0]), times[2].Sub(times[1])} {
			require.GreaterOrEqual(t, gap, 5*time.Second, "%d", i)
			require.LessOrEqual(t, gap, 5*time.Second+200*ms, "%d", i)
		}
		time.Sleep(10 * time.Minute)
		require.Empty(t, p.of(busy), "there is no need")
		require.Equal(t, 2, k.Len())
		require.Greater(t, len(p.of(answers)), 3*10)
		s := k.Stats()
		require.EqualValues(t, len(p.of(answers))+3, s.Probes)
		require.InDelta(t, len(p.of(answers))/3, s.RoundTrips.Count, 1)
		require.InDelta(t, 15*time.Second, s.RoundTrips.Mean(), 3e8)
		require.GreaterOrEqual(t, s.RoundTrips.Max, s.RoundTrips.Mean())
		_, ok = Of(silent).Pong()
		require.False(t, ok)
		require.Zero(t, roundTrip(silent))
		require.NoError(t, busy.Close())
		require.NoError(t, answers.Close())
	})
}

// The peer answers the first of three probes after the second.
func TestARoundTripIsNeverTooShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p prober
		k := newKeeper(t, Config{
			Timeout: 2 * time.Second, Tick: 10 * ms,
			Probe: Probing{Send: p.probe, After: 500 * ms, Timeout: 400 * ms, Count: 3},
		})
		answers, _ := pipe(k)
		for round := range 3 {
			for len(p.of(answers)) <= 2*round {
				time.Sleep(ms)
			}
			first := p.of(answers)[2*round]
			time.Sleep(600*ms - time.Since(first))
			require.Len(t, p.of(answers), 2*round+2)
			trip, ok := Of(answers).Pong()
			require.True(t, ok)
			require.InDelta(t, 600*ms, trip, float64(20*ms), "round %d", round)
			second, ok := Of(answers).Pong()
			require.True(t, ok)
			require.Zero(t, second)
		}
		for len(p.of(answers)) == 6 {
			time.Sleep(ms)
		}
		require.True(t, Touch(answers), "life, but no answer")
		for len(p.of(answers)) == 7 {
			time.Sleep(ms)
		}
		time.Sleep(100 * ms)
		trip, _ := Of(answers).Pong()
		require.InDelta(t, 100*ms, trip, float64(20*ms), "an earlier silence has passed")
		require.NoError(t, answers.Close())
	})
}

// Whatever is read answers a probe, and what is due in shares of the timeout is
// stretched with one's own.
func TestAnyLifeAnswersAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p prober
		k := newKeeper(t, Config{Timeout: 10 * time.Second, Probe: Probing{Send: p.probe}})
		conn, peer := pipe(k)
		_, err := Of(conn).SetTimeout(100 * time.Second)
		require.NoError(t, err)
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		for range 10 {
			before := len(p.of(conn))
			time.Sleep(80 * time.Second)
			require.Len(t, p.of(conn), before+1)
			_, err := peer.Write([]byte("x"))
			require.NoError(t, err)
		}
		require.NoError(t, conn.Close())
	})
}

func TestProbeThatFailsClosesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 10 * time.Second, Probe: Probing{Send: func(any) error { return errors.New("broken") }}})
		begin := time.Now()
		conn, _ := pipe(k)
		_, err := io.Copy(io.Discard, conn)
		require.ErrorIs(t, err, ReasonNoAnswer)
		require.LessOrEqual(t, time.Since(begin), 5*time.Second+200*ms)
		require.Zero(t, k.Stats().Probes)
	})
}

// Connections fallen silent in the same moment are probed in different moments.
func TestProbesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		perTick := map[int64]int{}
		var mu sync.Mutex
		begin := time.Now()
		k := newKeeper(t, Config{
			Timeout: 60 * time.Second,
			Probe: Probing{
				After: 40 * time.Second,
				Send: func(any) error {
					mu.Lock()
					defer mu.Unlock()
					perTick[int64(time.Since(begin)/(100*ms))]++
					return nil
				},
			},
		})
		for range 10_000 {
			pipe(k)
		}
		time.Sleep(41 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		most, all := 0, 0
		for _, n := range perTick {
			most = max(most, n)
			all += n
		}
		require.Equal(t, 10_000, all)
		require.InDelta(t, 100, len(perTick), 3, "a quarter of 40s, in ticks of 100ms")
		require.Less(t, most, 150, "a hundred on average")
	})
}

func TestVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p prober
		var verdict atomic.Int64
		var c closings // here of what OnIdle was asked
		asked := func() (reasons []Reason) {
			for _, told := range c.list() {
				reasons = append(reasons, told.reason)
			}
			return reasons
		}
		k := newKeeper(t, Config{
			Timeout: 10 * time.Second,
			Probe:   Probing{After: 10*time.Second - 100*ms, Timeout: 100 * ms, Send: p.probe},
			OnIdle: func(conn any, why Reason) Verdict {
				c.add(conn, why)
				return Verdict(verdict.Load())
			},
		})
		conn, _ := pipe(k)
		verdict.Store(int64(Ignore))
		time.Sleep(time.Hour)
		require.Equal(t, []Reason{ReasonNoAnswer}, asked(), "once for a silence")
		require.True(t, Touch(conn))
		time.Sleep(time.Hour)
		require.Equal(t, []Reason{ReasonNoAnswer, ReasonNoAnswer}, asked())
		require.True(t, Touch(conn))
		verdict.Store(int64(Extend(time.Hour)))
		time.Sleep(time.Hour + 5*time.Second)
		require.Len(t, asked(), 3)
		before := len(p.of(conn))
		verdict.Store(int64(Probe))
		for len(p.of(conn)) == before {
			time.Sleep(10 * ms)
		}
		require.True(t, Touch(conn), "answered")
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, k.Len())
		_, err := io.Copy(io.Discard, conn)
		require.ErrorIs(t, err, ReasonNoAnswer, "not answered, though the verdict is still Probe")

		none := newKeeper(t, Config{Timeout: time.Second, OnIdle: func(any, Reason) Verdict { return Probe }})
		conn, _ = pipe(none)
		_, err = io.Copy(io.Discard, conn)
		require.ErrorIs(t, err, ReasonIdle, "no Probe, so it means Close")
	})
}

func TestPacedClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 10 * time.Second, Closing: Closing{MaxPerSecond: 10}})
		conns := make([]net.Conn, 300)
		for i := range conns {
			conns[i], _ = pipe(k)
		}
		begin := time.Now()
		time.Sleep(10*time.Second + 100*ms)
		for second := range 10 {
			time.Sleep(time.Until(begin.Add(10*time.Second + time.Duration(second+1)*time.Second)))
			require.InDelta(t, 10*(second+1), 300-k.Len(), 3, "after %ds", second+1)
		}
		// A heartbeat before the close is a rescue.
		rescued := 0
		for _, c := range conns {
			if Touch(c) {
				rescued++
				beatEvery(t, c, time.Second)
			}
			if rescued == 100 {
				break
			}
		}
		require.Equal(t, 100, rescued)
		time.Sleep(time.Minute)
		require.Equal(t, 100, k.Len())
		require.EqualValues(t, 200, k.Stats().Closed[ReasonIdle])
		for g := range k.Guards() {
			require.NoError(t, g.Conn().(net.Conn).Close())
		}
	})
}

func TestMaxAgeIsPacedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Age: Age{Max: 10 * time.Second, Jitter: -1}, Closing: Closing{MaxPerSecond: 5}})
		for range 50 {
			c, _ := pipe(k)
			beatEvery(t, c, time.Second)
		}
		time.Sleep(12*time.Second + 500*ms)
		require.InDelta(t, 50-12, k.Len(), 4)
		time.Sleep(10 * time.Second)
		require.Zero(t, k.Len())
		require.EqualValues(t, 50, k.Stats().Closed[ReasonMaxAge])
	})
}

func TestContextEndsWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Second, OnClose: func(any, Reason) {}})
		idle, peer := pipe(k)
		local, _ := pipe(k)
		ctx := Of(idle).Context()
		require.Equal(t, ctx, Of(idle).Context(), "the same each time")
		localCtx := Of(local).Context()
		require.NoError(t, local.Close())
		<-localCtx.Done()
		require.Equal(t, ReasonLocal, context.Cause(localCtx))
		require.NoError(t, ctx.Err())
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), ErrIdleTimeout)
		synctest.Wait() // the context ends a little before the guard is gone
		require.Equal(t, ErrNotGuarded, context.Cause(Of(idle).Context()))
		require.Equal(t, ErrNotGuarded, context.Cause(Of(peer).Context()))
		left, _ := pipe(k)
		ctx = Of(left).Context()
		require.NoError(t, k.Close())
		require.Equal(t, ErrNotGuarded, context.Cause(ctx))
	})
}

func TestDrainSpreadsTheGoodbyes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		k := newKeeper(t, Config{Timeout: time.Hour, Logger: log.Logger(slog.LevelInfo)})
		for range 100 {
			c, _ := pipe(k)
			beatEvery(t, c, time.Second)
		}
		done := make(chan error)
		go func() { done <- k.Drain(t.Context(), 10*time.Second) }()
		for second := range 9 {
			time.Sleep(time.Second)
			require.InDelta(t, 100-10*(second+1), k.Len(), 3)
			refused, peer := pipe(k)
			_, err := peer.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
			_, err = refused.Read(make([]byte, 1))
			require.ErrorIs(t, err, ReasonDrain)
		}
		require.NoError(t, <-done)
		require.EqualValues(t, 100, k.Stats().Closed[ReasonDrain])
		require.EqualValues(t, 9, k.Stats().RefusedDrain)
		require.True(t, k.Stats().Draining)
		require.True(t, k.Stats().Draining)
		require.InDelta(t, 9, strings.Count(log.String(), "keepalive: draining"), 2, "progress, once a second")
		k.Resume()
		pipe(k)
		require.Equal(t, 1, k.Len())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		pipe(k)
		err := k.Drain(ctx, time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "with 1 connections left")
	})
}

// Probes come early to be spread. The early ones take nothing from the timeout.
func TestProbesCloseNobodyBeforeTheirTime(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		from time.Duration
	}{
		{Config{Timeout: time.Minute}, time.Minute},
		{Config{Timeout: time.Minute, Probe: Probing{Count: 7}}, time.Minute},
		{Config{Timeout: time.Minute, Probe: Probing{After: 20 * time.Second, Timeout: 5 * time.Second, Count: 3}}, 35 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			tt.cfg.Probe.Send = func(any) error { return nil }
			var mu sync.Mutex
			var ages []time.Duration
			k := newKeeper(t, tt.cfg)
			begin := time.Now()
			k.Watch(func(e End) {
				mu.Lock()
				defer mu.Unlock()
				ages = append(ages, e.Age)
				require.Equal(t, ReasonNoAnswer, e.Reason)
			})
			var conns []net.Conn
			for range 100 {
				c, _ := pipe(k)
				conns = append(conns, c)
			}
			for _, at := range []time.Duration{0, tt.from * 3 / 4, tt.from * 9 / 10} {
				time.Sleep(at - time.Since(begin))
				synctest.Wait() // looks may be due at this very moment
				for _, c := range conns {
					due, reason, ok := Of(c).Deadline()
					require.True(t, ok)
					require.Equal(t, ReasonNoAnswer, reason)
					require.InDelta(t, tt.from, due.Sub(begin), float64(time.Second), "at %v", at)
				}
			}
			time.Sleep(2 * time.Minute)
			mu.Lock()
			defer mu.Unlock()
			require.Len(t, ages, 100)
			for _, age := range ages {
				require.GreaterOrEqual(t, age, tt.from-tt.from%time.Millisecond)
				require.Less(t, age, tt.from+2*time.Second)
			}
		})
	}
}
