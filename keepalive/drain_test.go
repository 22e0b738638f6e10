package keepalive

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
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
		leave        bool // before their turns come
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
