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

	"github.com/heartwheel-go/heartwheel/pool"
)

// SetTimeout notes the time before it touches.
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
		guardOf(c).member.HandOver() // as MinRate or Update would
		if _, err := k.SetTimeout(c, 200*ms); err != nil {
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
		Timeout: 100 * ms, Tick: ms, MinBeat: ms, MinRate: 1, ReadIdle: time.Second, WriteIdle: time.Second, MaxAge: 3 * time.Second, MaxAgeGrace: 10 * ms,
		Probe: func(any) error { return nil }, Pressure: func() float64 { return .9 }, MaxPerKey: 1000, MaxConns: 300, Full: pool.EvictIdlest, Advise: true,
		OnIdle: func(any, Reason) Verdict { return Extend(time.Millisecond) }, Farewell: func(any, Reason) []byte { return []byte("bye") }, FarewellTimeout: 10 * ms,
		MaxClosePerSecond: 1000, FirstMessage: 50 * ms,
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
				if Reason(c.(interface{ self() *conn }).self().ended.Load()) != 0 && !k.pool.Has(&guardOf(c).member) && guardOf(c).conn == nil {
					_ = b.Close()
					continue
				}
				made.Add(1)
				go func() { _, _ = io.Copy(io.Discard, b) }()
				go func() { _, _ = io.Copy(io.Discard, c) }()
				for i := range 50 {
					switch (i + w) % 9 {
					case 0:
						_, _ = k.SetTimeout(c, time.Duration(i+1)*ms)
					case 1:
						k.Hold(c)()
					case 2:
						k.Pong(c)
					case 3:
						k.Context(c)
					case 4:
						k.Deadline(c)
					case 5:
						_, _ = k.SetInterval(c, 0)
					case 6:
						_, _ = c.Write([]byte("x"))
					default:
						k.Touch(c)
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
			next.DryRun = i%5 == 0
			next.ProbeAfter, next.ProbeTimeout = 20*ms, 10*ms
			_ = k.Update(next)
			k.Idlest(3)
			k.Stats()
			k.Advice()
			time.Sleep(7 * ms)
		}
	})
	wg.Wait()
	require.NoError(t, k.Update(Config{Timeout: 100 * ms, Tick: ms, MaxConns: 300, Full: pool.EvictIdlest, OnClose: cfg.OnClose}))
	dctx, dcancel := context.WithTimeout(context.Background(), eternal)
	defer dcancel()
	require.NoError(t, k.Drain(dctx, 0))
	count := func() (n int64) {
		told.Range(func(any, any) bool { n++; return true })
		return n
	}
	require.Eventually(t, func() bool { return count() >= made.Load() && k.shares.Keys() == 0 }, eternal, 10*ms)
	time.Sleep(200 * ms) // for those who are told twice
	require.Zero(t, twice.Load())
	n := count()
	require.Equal(t, made.Load(), n, "OnClose for each")
	t.Logf("%d conns, %+v", n, k.Stats())
	require.NoError(t, k.Close())
}
