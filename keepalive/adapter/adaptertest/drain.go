package adaptertest

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func drainTests() []test {
	return []test{
		{name: "drain", of: drain, run: drainClosesAll},
		{name: "drain/spread", of: drain, run: drainIsSpread},
		{name: "drain/cut", of: drain, run: drainIsCutShort},
		{name: "drain/shed", of: drain, run: oldestAreShed},
		{name: "drain/leaving", of: half, run: drainWaitsForFarewells},
	}
}

// Drain closes all connections, the busy ones included, and returns after the last end.
func drainClosesAll(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{Farewell: bye}})
	clients := r.dialMany(10)
	s := clients[0].stall()
	s.wait()
	time.AfterFunc(beat, s.end)
	r.drain(0)
	for i, c := range clients {
		require.Len(r, r.endsOf(c.conn), 1, "Drain returns after OnClose")
		c.requireEnd(keepalive.ReasonDrain)
		if i > 0 { // the handler of the first one may still have answered
			c.requireBytes("bye drain\n")
		}
	}
	require.Zero(r, r.k.Len())
	require.True(r, r.k.Stats().Draining)
}

func drainIsSpread(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal})
	const n = 8
	clients := r.dialMany(n)
	begun := time.Now()
	r.drain(2 * timeout)
	require.GreaterOrEqual(r, time.Since(begun), 2*timeout*(n-1)/n)
	within := 0
	for _, c := range clients {
		e := c.requireEnd(keepalive.ReasonDrain)
		if e.at.Sub(begun) < timeout {
			within++
		}
	}
	require.LessOrEqual(r, within, n/2+1, "ends within the first half")
}

// The others stay, and so do newcomers.
func oldestAreShed(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{Farewell: bye}})
	clients := r.dialMany(6)
	ctx, cancel := context.WithTimeout(context.Background(), eternal)
	defer cancel()
	n, err := r.k.Shed(ctx, keepalive.Shed{Share: .5})
	require.NoError(r, err)
	require.Equal(r, 3, n)
	for i, c := range append(clients, r.dial()) {
		if i < n {
			require.Len(r, r.endsOf(c.conn), 1, "Shed returns after OnClose")
			c.requireEnd(keepalive.ReasonShed)
			c.requireBytes("bye shed\n")
		} else {
			require.NoError(r, c.ask("echo"))
		}
	}
}

// The context ends before the drain does. The other connections stay, and after Resume they
// are kept as before.
func drainIsCutShort(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal})
	clients := r.dialMany(4)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- r.k.Drain(ctx, 4*eternal) }() // one each minute
	var left []*client
	r.eventually(func() bool {
		left = slices.DeleteFunc(slices.Clone(clients), func(c *client) bool { return len(r.endsOf(c.conn)) > 0 })
		return len(left) < 4 && r.k.Stats().Leaving == 0
	}, "the first one is closed")
	cancel()
	err := <-drained
	require.ErrorIs(r, err, context.Canceled)
	require.Len(r, left, 3)
	require.Contains(r, err.Error(), "3 connections left")
	for _, c := range left {
		require.NoError(r, c.ask("beat"))
	}
	r.k.Resume()
	require.NoError(r, r.dial().ask("beat"))
}

// Drain waits for peers with a farewell, too, also if its context is over.
func drainWaitsForFarewells(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{
		Mode: keepalive.CloseHalf, Timeout: eternal, Farewell: bye,
	}})
	c := r.dial()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	drained := make(chan error, 1)
	go func() { drained <- r.k.Drain(ctx, 0) }()
	c.requireBytes("bye drain\n")
	require.EqualValues(r, 1, r.k.Stats().Leaving)
	require.Empty(r, drained)
	time.AfterFunc(beat, func() { c.Close() })
	require.NoError(r, <-drained)
	c.requireEnd(keepalive.ReasonDrain)
}
