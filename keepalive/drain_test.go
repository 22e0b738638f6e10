package keepalive

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// A drain must not sleep before each connection: each sleep takes a little too long, and the last
// tenth of the spread would have to make up for it.
func TestDrainOfVeryManyIsEvenlySpread(t *testing.T) {
	t.Parallel()
	const conns = 2000
	most := 0
	for spread, tries := time.Second, 0; tries < attempts; {
		require.LessOrEqual(t, spread, time.Minute, "this machine is too busy to tell")
		var took, pause time.Duration
		most, took, pause = busiestTenth(t, conns, spread)
		switch {
		case most <= conns*15/100:
			return
		case took > spread*5/4, pause > spread/50: // too slow a machine for so many in the time, or too busy
			spread *= 2
		default:
			tries++
		}
	}
	require.Fail(t, "too many in a tenth of the time", "%d of %d", most, conns)
}

// attempts is how often a test may measure again if this machine had other work.
const attempts = 5

// busiestTenth drains so many connections. It returns how many were closed in the busiest tenth
// of the spread, how long the drain took, and the longest pause of this machine meanwhile. Later
// ones count in the last tenth.
func busiestTenth(t *testing.T, conns int, spread time.Duration) (most int, took, pause time.Duration) {
	var tenths [10]atomic.Int64
	var begin time.Time
	k := newKeeper(t, Config{Tick: 10 * ms, OnClose: func(any, Reason) {
		tenths[min(9, 10*time.Since(begin)/spread)].Add(1)
	}})
	for range conns {
		inner, peer := net.Pipe()
		defer peer.Close()
		k.Conn(inner)
	}
	begin = time.Now()
	drained := make(chan error, 1)
	go func() { drained <- k.Drain(t.Context(), spread) }()
	for took == 0 {
		slept := time.Now()
		select {
		case err := <-drained:
			require.NoError(t, err)
			took = time.Since(begin)
		case <-time.After(ms):
			pause = max(pause, time.Since(slept)-ms)
		}
	}
	require.EqualValues(t, conns, k.Stats().Closed[ReasonDrain])
	for i := range tenths {
		most = max(most, int(tenths[i].Load()))
	}
	return most, took, pause
}

func TestANewcomerOfADrainIsRefusedForTheDrain(t *testing.T) {
	k := newKeeper(t, Config{Room: Room{MaxConns: 1}})
	pipe(k)
	k.draining.Store(true)
	c, _ := pipe(k)
	_, err := c.Read(nil)
	require.ErrorIs(t, err, ReasonDrain, "and not because it is full")
}

// The drain begins when the connection is half in, and may not see it.
func TestAConnectionInTheMomentOfADrainIsRefused(t *testing.T) {
	var k *Keeper
	k = newKeeper(t, Config{Room: Room{MaxPerKey: 1, Key: func(net.Addr) string {
		k.draining.Store(true)
		return "key"
	}}})
	g, err := guardOf(k, &net.UnixAddr{})
	require.Equal(t, ReasonDrain, err)
	require.False(t, g.isOpen())
	require.Zero(t, k.Len())
	require.Zero(t, k.shares.keys())
}

func TestADrainSaysWhatEndedIt(t *testing.T) {
	for name, end := range map[string]func(k *Keeper, cancel func()){
		"resumed":          func(k *Keeper, _ func()) { k.Resume() },
		"context canceled": func(_ *Keeper, cancel func()) { cancel() },
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(t, Config{})
			pipe(k)
			pipe(k)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, func() { end(k, cancel) })
			err := k.Drain(ctx, 10*time.Second)
			require.EqualError(t, err, "keepalive: drain with 1 connections left: "+name)
		})
	}
}

func TestADrainEndsWithTheLastConnection(t *testing.T) {
	for name, test := range map[string]struct {
		tick, spread time.Duration
		leave        bool // before they are told
	}{
		"all leave by themselves": {spread: 10 * time.Minute, leave: true},
		"a long tick":             {tick: time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(t, Config{Timeout: time.Hour, Tick: test.tick})
			for range 10 {
				if c, _ := pipe(k); test.leave {
					time.AfterFunc(time.Second, func() { c.Close() })
				}
			}
			begin := time.Now()
			require.NoError(t, k.Drain(t.Context(), test.spread))
			require.Less(t, time.Since(begin), 2*time.Second, name)
		})
	}
}

// The context of a drain does not take the time of the farewells.
func TestADrainWithoutTimeGivesFarewellsTheirs(t *testing.T) {
	for name, slow := range map[string]time.Duration{"in time": 900 * ms, "stuck": 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(t, Config{Timeout: time.Minute})
			conn, peer := pipe(k)
			said := false
			require.NoError(t, Of(conn).Binding().Upgrade(noProbe, func(net.Error, time.Time) {
				time.Sleep(slow)
				_, err := conn.Write([]byte("bye"))
				said = err == nil
			}))
			go func() { _, _ = io.Copy(io.Discard, peer) }()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			begin := time.Now()
			err := k.Drain(ctx, 0)
			if slow < time.Second {
				require.NoError(t, err)
				require.True(t, said)
				require.Less(t, time.Since(begin), time.Second)
			} else {
				require.EqualError(t, err, "keepalive: drain with 1 connections left: context canceled", name)
				require.Equal(t, 2*time.Second, time.Since(begin).Truncate(100*ms), "its timeout, and as much for a function that hangs")
			}
			time.Sleep(10 * time.Second)
		})
	}
}

// A connection with exchanges ends between two of them, and at the latest with the context.
func TestADrainWaitsForExchanges(t *testing.T) {
	for name, test := range map[string]struct {
		exchange time.Duration // from 0 on, or none
		over     time.Duration // of the context
		want     time.Duration // of the connection
		hijacked bool
	}{
		"none, and it is new":      {over: time.Hour, want: lastWord},
		"an exchange":              {exchange: 5 * time.Second, over: time.Hour, want: 5*time.Second + lastWord},
		"a long one":               {exchange: 10 * time.Second, over: 5 * time.Second, want: 5 * time.Second},
		"no more exchanges at all": {exchange: time.Second, over: time.Hour, want: time.Second + lastWord, hijacked: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			told, ended := 0, time.Time{}
			k := newKeeper(t, Config{Timeout: 2 * time.Hour, OnClose: func(any, Reason) { ended = time.Now() }})
			conn, _ := pipe(k)
			begin := time.Now()
			Of(conn).Binding().Exchanges(func() { told++ }, nil)
			if test.exchange > 0 {
				Of(conn).Binding().Exchange(true)
				time.AfterFunc(test.exchange, func() {
					if test.hijacked {
						Of(conn).Binding().Exchanges(nil, nil)
					} else {
						Of(conn).Binding().Exchange(false)
					}
				})
			}
			ctx, cancel := context.WithTimeout(t.Context(), test.over)
			defer cancel()
			drained := make(chan error, 1)
			go func() { drained <- k.Drain(ctx, 0) }()
			time.Sleep(time.Millisecond)
			at, reason, ok := Of(conn).Deadline()
			require.True(t, ok)
			if test.exchange == 0 {
				require.Equal(t, ReasonDrain, reason, name)
				require.Equal(t, test.want, at.Sub(begin).Round(100*ms), name)
			}
			if err := <-drained; test.exchange > test.over {
				require.EqualError(t, err, "keepalive: drain cut 1 connections in the middle of a request: context deadline exceeded")
			} else {
				require.NoError(t, err, name)
			}
			require.Equal(t, test.want, ended.Sub(begin).Truncate(100*ms), name)
			require.Equal(t, 1, told, name)
			require.EqualValues(t, 1, k.Stats().Closed[ReasonDrain], name)
			time.Sleep(10 * time.Second) // the exchange ends
		})
	}
}

// An HTTP server learns that its response was the last one of HTTP, and then writes the rest of a WebSocket's handshake.
func TestADrainLeavesTimeForAnUpgrade(t *testing.T) {
	const hijacked = 2 * time.Second
	for name, test := range map[string]struct {
		drain, upgrade, want time.Duration // from the beginning on
	}{
		"none":                 {drain: time.Second, want: hijacked + lastWord},
		"one":                  {drain: time.Second, upgrade: 3 * time.Second, want: 3 * time.Second},
		"the drain is later":   {drain: 2500 * ms, upgrade: 3 * time.Second, want: 3 * time.Second},
		"none, and it is over": {drain: 10 * time.Second, want: 10 * time.Second},
		"long ago":             {drain: 10 * time.Second, upgrade: 3 * time.Second, want: 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ended, said := time.Time{}, Reason(0)
			k := newKeeper(t, Config{Timeout: time.Hour, OnClose: func(any, Reason) { ended = time.Now() }})
			conn, peer := pipe(k)
			drained(t, peer)
			begin, g := time.Now(), Of(conn)
			g.Binding().Exchanges(func() {}, nil)
			g.Binding().Exchange(true)
			time.AfterFunc(hijacked, func() { g.Binding().Exchanges(nil, nil) })
			if test.upgrade > 0 {
				time.AfterFunc(test.upgrade, func() {
					require.NoError(t, g.Binding().Upgrade(noProbe, func(why net.Error, _ time.Time) { said = why.(Reason) }), name)
				})
			}
			time.Sleep(test.drain)
			require.NoError(t, k.Drain(t.Context(), 0))
			require.Equal(t, test.want, ended.Sub(begin).Truncate(100*ms), name)
			require.Equal(t, test.upgrade > 0, said == ReasonDrain, "%s: the farewell", name)
		})
	}
}

// A request goes on for ever, and its connection is drained before its age, or after it.
func TestTheGraceOfAnAgeEndsDuringADrain(t *testing.T) {
	for _, drain := range []time.Duration{30 * time.Second, 65 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(t, Config{Timeout: time.Hour, Age: Age{Max: time.Minute, Jitter: -1, Grace: 10 * time.Second}, Closing: Closing{MaxPerSecond: 1}})
			conn, _ := pipe(k)
			begin := time.Now()
			Of(conn).Binding().Exchanges(func() {}, nil)
			Of(conn).Binding().Exchange(true)
			time.Sleep(drain)
			require.NoError(t, k.Drain(t.Context(), 0))
			require.Equal(t, 70*time.Second, time.Since(begin).Truncate(time.Second), "%v", drain)
			require.EqualValues(t, 1, k.Stats().Closed[ReasonMaxAge])
		})
	}
}

// The drain comes first, and its decision waits for a worker until the first request is under way.
func TestExchangesMayBeginAfterTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour})
		conn, _ := pipe(k)
		g, told := Of(conn), false
		require.True(t, g.enter(), "another decision is under way")
		g.dismiss(ReasonDrain, toDrain)
		g.Binding().Exchanges(func() { told = true }, nil)
		require.True(t, told)
		g.Binding().Exchange(true)
		synctest.Wait()
		require.True(t, g.leave())
		g.Binding().Decide()
		time.Sleep(time.Minute)
		require.True(t, g.isOpen())
		g.Binding().Exchange(false)
		time.Sleep(2 * lastWord)
		require.False(t, g.isOpen())
		require.EqualValues(t, 1, k.Stats().Closed[ReasonDrain])
	})
}

// The program closes the connection because it was told to.
func TestAnEndAfterTheProgramWasToldHasItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour})
		for _, hijacked := range []bool{false, true} {
			conn, _ := pipe(k)
			g := Of(conn)
			g.Binding().Exchanges(func() {}, nil)
			g.Binding().Exchange(true)
			g.dismiss(ReasonDrain, toDrain)
			g.dismiss(ReasonDrain, toDrain)
			if hijacked {
				g.condemn(ReasonMaxAge)
				g.dismiss(ReasonDrain, toDrain)
			} else {
				require.NoError(t, conn.Close())
			}
			time.Sleep(time.Second) // a decision may be about to wait: the next one comes on the next tick
			require.False(t, g.isOpen())
		}
		require.EqualValues(t, 1, k.Stats().Closed[ReasonDrain])
		require.EqualValues(t, 1, k.Stats().Closed[ReasonMaxAge], "at once stays at once")
	})
}

func TestAMaximumAgeWaitsForExchanges(t *testing.T) {
	for name, test := range map[string]struct {
		grace, exchange, want time.Duration
		dry, paced            bool
	}{
		"none":                {want: time.Minute + lastWord},
		"one, without grace":  {exchange: 2 * time.Minute, want: 2*time.Minute + lastWord},
		"one, with a grace":   {exchange: 2 * time.Minute, grace: time.Second, want: time.Minute + time.Second},
		"none, with a grace":  {grace: 10 * time.Second, want: time.Minute + 10*time.Second},
		"a dry run":           {exchange: 2 * time.Minute, dry: true},
		"at the rate":         {exchange: 2 * time.Minute, want: 2*time.Minute + lastWord, paced: true},
		"a short one, before": {exchange: 30 * time.Second, want: time.Minute + lastWord},
	} {
		synctest.Test(t, func(t *testing.T) {
			told, ended := make(chan time.Time, 1), make(chan time.Time, 1)
			cfg := Config{Timeout: 9 * time.Hour, Age: Age{Max: time.Minute, Jitter: -1, Grace: test.grace}, OnClose: func(any, Reason) { ended <- time.Now() }}
			cfg.Closing.DryRun = test.dry
			if test.paced {
				cfg.Closing.MaxPerSecond = 10
			}
			k := newKeeper(t, cfg)
			conn, _ := pipe(k)
			begin := time.Now()
			Of(conn).Binding().Exchanges(func() { told <- time.Now() }, nil)
			if test.exchange > 0 {
				Of(conn).Binding().Exchange(true)
				time.AfterFunc(test.exchange, func() { Of(conn).Binding().Exchange(false) })
			}
			time.Sleep(3 * time.Minute)
			if test.dry {
				require.Empty(t, told)
				require.Empty(t, ended)
				require.EqualValues(t, 1, k.Stats().WouldClose[ReasonMaxAge])
				return
			}
			require.Equal(t, time.Minute, (<-told).Sub(begin).Truncate(time.Second), name)
			age := (<-ended).Sub(begin)
			require.GreaterOrEqual(t, age, test.want, name)
			require.Less(t, age, test.want+time.Second, name)
			require.EqualValues(t, 1, k.Stats().Closed[ReasonMaxAge], name)
		})
	}
}

// Binder.Drain is for a program with layers of its own, such as TLS. It takes them down between two exchanges, and says
// nothing in the middle of one. A drain without it has its farewell.
func TestOnlyADrainForAProgramLeavesTheEndToItsLayers(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for name, test := range map[string]struct {
		drain    func(k *Keeper) error
		underWay bool
		want     string
	}{
		"for a program": {drain: func(k *Keeper) error { return k.Binder().Drain(context.Background(), func() {}) }, want: "alert"},
		"in the middle": {drain: func(k *Keeper) error { return k.Binder().Drain(over, func() {}) }, underWay: true},
		"by the Keeper": {drain: func(k *Keeper) error { return k.Drain(context.Background(), 0) }, want: "bye"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, Config{Timeout: time.Hour, Closing: Closing{Farewell: func(any, Reason) []byte { return []byte("bye") }}})
				require.NoError(t, k.Binder().Drain(t.Context(), func() {})) // of nobody
				k.Resume()
				c, peer := pipe(k)
				Of(c).Binding().Exchanges(func() {}, func() error {
					_, err := io.WriteString(c, "alert")
					return errors.Join(err, c.Close())
				})
				if test.underWay {
					Of(c).Binding().Exchange(true)
				}
				said := make(chan []byte)
				go func() {
					b, _ := io.ReadAll(peer)
					said <- b
				}()
				_ = test.drain(k)
				require.Equal(t, test.want, string(<-said))
				require.EqualValues(t, 1, k.Stats().Closed[ReasonDrain])
			})
		})
	}
}

// looping is the adapter of a connection that belongs to an event loop: its socket may be asked during Bind and Decide only.
type looping struct {
	guard   Guard
	inside  atomic.Int32
	outside atomic.Int32
}

func (l *looping) SafeContext() any { return &l.guard }
func (l *looping) Due(b adapter.Binding) {
	l.inside.Add(1)
	defer l.inside.Add(-1)
	b.Decide()
}
func (l *looping) Do(_ context.Context, _ adapter.Binding, f func()) error { f(); return nil }
func (l *looping) Control(adapter.Binding, func(fd uintptr)) error {
	if l.inside.Load() == 0 {
		l.outside.Add(1)
	}
	return errors.ErrUnsupported
}
func (l *looping) Peer(adapter.Binding) net.Addr           { return nil }
func (l *looping) End(b adapter.Binding, _ adapter.Ending) { b.Closed(false) }

func TestADrainAsksASocketInItsEventLoopOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour})
		l := new(looping)
		l.inside.Add(1)
		require.NoError(t, k.Bind(&l.guard, l, l, nil))
		l.inside.Add(-1)
		b := l.guard.Binding()
		b.Exchanges(func() {}, nil)
		b.Begins(true)
		l.guard.came()
		ctx, cancel := context.WithTimeout(t.Context(), 600*ms)
		defer cancel()
		require.ErrorIs(t, k.Binder().Drain(ctx, func() {}), context.DeadlineExceeded)
		require.Zero(t, l.outside.Load())
	})
}

// A busy program may take longer to begin than the connection may become old.
func TestExchangesMayBeginAfterTheMaximumAge(t *testing.T) {
	for _, dry := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(t, Config{Age: Age{Max: time.Second, Jitter: -1, Grace: 30 * time.Second}, Closing: Closing{DryRun: dry}})
			conn, _ := pipe(k)
			time.Sleep(5 * time.Second)
			told := false
			Of(conn).Binding().Exchanges(func() { told = true }, nil)
			require.Equal(t, !dry, told)
			require.NoError(t, conn.Close())
			require.Equal(t, !dry, k.Stats().Closed[ReasonMaxAge] == 1)
		})
	}
}

// The program closes a connection as it was told, or before, and its own goroutine calls OnClose, as that of net/http
// does. Who has called Drain may end what OnClose uses.
func TestADrainWaitsForOnCloseOfWhoLeavesByItself(t *testing.T) {
	slowly := func(k *Keeper, during time.Duration) *atomic.Int32 {
		var closed atomic.Int32
		cfg := k.Config()
		cfg.OnClose = func(any, Reason) {
			time.Sleep(during)
			closed.Add(1)
		}
		require.NoError(t, k.Update(cfg))
		return &closed
	}
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour})
		closed := slowly(k, time.Minute)
		conn, _ := pipe(k)
		Of(conn).Binding().Exchanges(func() { go conn.Close() }, nil)
		require.NoError(t, k.Drain(t.Context(), 0))
		require.EqualValues(t, 1, closed.Load())
		require.Equal(t, map[Reason]uint64{ReasonDrain: 1}, k.Stats().Closed)
	})
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour})
		closed := slowly(k, time.Minute)
		for range 3 {
			conn, _ := pipe(k)
			time.AfterFunc(time.Second, func() { _ = conn.Close() })
		}
		require.NoError(t, k.Drain(t.Context(), time.Hour))
		require.EqualValues(t, 3, closed.Load())
	})
	synctest.Test(t, func(t *testing.T) { // too slow: the drain says so
		k := newKeeper(t, Config{Timeout: time.Hour})
		closed := slowly(k, time.Minute)
		conn, _ := pipe(k)
		Of(conn).Binding().Exchanges(func() { go conn.Close() }, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := k.Drain(ctx, 0)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "1 connections left")
		require.Zero(t, closed.Load())
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, closed.Load())
		require.NoError(t, k.Drain(t.Context(), 0))
	})
}
