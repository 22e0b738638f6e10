package keepalive

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A look comes just before SetTimeout. SetTimeout says so if the connection is closed.
func TestSetTimeoutAgainstALook(t *testing.T) {
	k := newKeeper(t, Config{Timeout: time.Hour})
	var conns []net.Conn
	for range 20000 {
		c, _ := pipe(k)
		conns = append(conns, c)
	}
	time.Sleep(400 * ms)
	var wg sync.WaitGroup
	var lost atomic.Int32
	for _, c := range conns {
		Of(c).timer.HandOver() // a look at the same moment
		if _, err := Of(c).SetTimeout(200 * ms); err != nil {
			lost.Add(1)
		}
	}
	wg.Wait()
	t.Logf("closed while SetTimeout gave them 200ms from now: %d; %v", lost.Load(), k.Stats().Closed)
	require.Zero(t, lost.Load())
}

// For -race: all at once.
func TestEverythingAtOnce(t *testing.T) {
	cfg := Config{
		Timeout:      100 * ms,
		Tick:         ms,
		Rate:         Rate{MinBeat: ms, MinBytes: 1},
		ReadIdle:     time.Second,
		WriteIdle:    time.Second,
		Age:          Age{Max: 3 * time.Second, Grace: 10 * ms},
		Probe:        Probing{Send: func(any) error { return nil }},
		Room:         Room{MaxPerKey: 1000, MaxPerUser: 20, MaxConns: 300, Full: FullEvict, Pressure: Pressure{Used: func() float64 { return .9 }}},
		Advise:       true,
		OnIdle:       func(any, Reason) Verdict { return Extend(time.Millisecond) },
		Closing:      Closing{Farewell: func(any, Reason) []byte { return []byte("bye") }, Timeout: 10 * ms, MaxPerSecond: 1000},
		FirstMessage: 50 * ms,
	}
	var told sync.Map
	var twice atomic.Int32
	cfg.OnClose = func(c any, _ Reason) {
		if _, loaded := told.LoadOrStore(c, true); loaded {
			twice.Add(1)
		}
	}
	k, err := New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	var made atomic.Int64
	for w := range 6 {
		wg.Go(func() {
			for ctx.Err() == nil {
				a, b := net.Pipe()
				c := k.Conn(a)
				if c.(interface{ self() *conn }).self().guard.keeper == nil { // refused
					_ = b.Close()
					continue
				}
				made.Add(1)
				go func() { _, _ = io.Copy(io.Discard, b) }()
				go func() { _, _ = io.Copy(io.Discard, c) }()
				for i := range 50 {
					switch (i + w) % 9 {
					case 0:
						_, _ = Of(c).SetTimeout(time.Duration(i+1) * ms)
					case 1:
						Of(c).Hold()()
					case 2:
						Of(c).Pong()
					case 3:
						Of(c).Context()
					case 4:
						Of(c).Deadline()
					case 5:
						_, _ = Of(c).SetInterval(0)
					case 6:
						_, _ = c.Write([]byte("x"))
					case 7:
						_ = Of(c).SetKey([]string{"ann", "bob", ""}[i%3])
					default:
						Touch(c)
					}
					time.Sleep(time.Millisecond)
				}
				if w%2 == 0 {
					_ = c.Close()
					_ = b.Close()
				}
			}
		})
	}
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			next := cfg
			next.Timeout = time.Duration(50+i%3*50) * ms
			next.Closing.DryRun = i%5 == 0
			next.Probe.After, next.Probe.Timeout = 20*ms, 10*ms
			_ = k.Update(next)
			for range k.Guards() {
			}
			k.Stats()
			k.Stats()
			_, _ = k.Shed(ctx, Shed{Count: 2})
			time.Sleep(7 * ms)
		}
	})
	wg.Wait()
	require.NoError(t, k.Update(Config{Timeout: 100 * ms, Tick: ms, Room: Room{MaxConns: 300, Full: FullEvict}, OnClose: cfg.OnClose}))
	dctx, dcancel := context.WithTimeout(context.Background(), eternal)
	defer dcancel()
	require.NoError(t, k.Drain(dctx, 0))
	count := func() (n int64) {
		told.Range(func(any, any) bool { n++; return true })
		return n
	}
	require.Eventually(t, func() bool {
		return count() >= made.Load() && k.shares.keys() == 0 && k.shares.requireCounts(t, 1000) == 0
	}, eternal, 10*ms)
	time.Sleep(200 * ms) // time for a second OnClose
	require.Zero(t, twice.Load())
	n := count()
	require.Equal(t, made.Load(), n, "OnClose for each")
	t.Logf("%d conns, %+v", n, k.Stats())
	require.NoError(t, k.Close())
}

// A connection that comes during Close is unguarded after it, and its context is done.
func TestConnectionsThatComeDuringClose(t *testing.T) {
	k := newKeeper(t, Config{Timeout: time.Hour})
	for range 20_000 { // so Close takes its time
		_, _ = pipe(k)
	}
	var contexts []context.Context
	var coming sync.WaitGroup
	started, stop := make(chan struct{}), make(chan struct{})
	coming.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			conn, _ := pipe(k)
			if g := Of(conn); g != nil {
				contexts = append(contexts, g.Context())
			}
			if n == 10 {
				close(started)
			}
		}
	})
	<-started
	require.NoError(t, k.Close())
	close(stop)
	coming.Wait()
	for _, ctx := range contexts {
		require.Error(t, ctx.Err())
		require.ErrorIs(t, context.Cause(ctx), ErrNotGuarded)
	}
}
