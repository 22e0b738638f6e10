package adaptertest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func reasonTests() []test {
	return []test{
		{name: "reason/any", of: farewell, run: anyReasonByHand},
		{name: "reason/local", run: handlerCloses},
		{name: "reason/peer", of: peersClose, run: peerCloses},
		{name: "reason/peer", lack: peersClose, run: peerClosesUnseen},
		{name: "reason/again", lack: peersClose, run: endedSessionBeginsAnew},
		{name: "reason/age", of: age, run: busyConnectionGrowsOld},
		{name: "reason/race", run: endsRace},
	}
}

func contextCause(c *client) error { return context.Cause(c.context) }

// Guard.Close with each Reason.
func anyReasonByHand(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{Farewell: bye}})
	for _, reason := range keepalive.Reasons() {
		c := r.dial()
		require.True(r, c.guard.Close(reason))
		c.requireBytes("bye " + reason.String() + "\n")
		c.requireEnd(reason)
		require.False(r, c.guard.Close(reason))
	}
}

// The program closes a connection: without a farewell.
func handlerCloses(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{Farewell: bye}})
	c := r.dial()
	require.NoError(r, c.say("close"))
	c.requireBytes("")
	c.requireEnd(keepalive.ReasonLocal)
	require.False(r, c.guard.Close(keepalive.ReasonDrain))
}

func peerCloses(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal})
	c := r.dial()
	require.NoError(r, c.Close())
	c.requireEnd(keepalive.ReasonPeer)
}

// A peer that goes falls silent.
func peerClosesUnseen(r *rig) {
	r.serve(keepalive.Config{})
	c := r.dial()
	require.NoError(r, c.Close())
	c.requireExpiry(keepalive.ReasonIdle, timeout)
}

// After the end of a session, a datagram of the same peer begins another one.
func endedSessionBeginsAnew(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal})
	c := r.dial()
	require.True(r, c.guard.Close(keepalive.ReasonMaxAge))
	c.requireEnd(keepalive.ReasonMaxAge)
	again := &client{Conn: c.Conn, r: r, lines: c.lines}
	require.NoError(r, again.ask("name again"))
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NotNil(r, r.peers["again"].guard)
	require.NotSame(r, c.guard, r.peers["again"].guard)
}

func busyConnectionGrowsOld(r *rig) {
	var told sync.Map // when, by the connection
	r.serve(keepalive.Config{Timeout: eternal, Age: keepalive.Age{
		Max: timeout, Jitter: -1, Grace: timeout / 2,
		OnMax: func(conn any) {
			if _, again := told.LoadOrStore(conn, time.Now()); again {
				r.Error("OnMax is called once for each connection")
			}
		},
	}})
	c := r.dial()
	for c.ask("beat") == nil {
		time.Sleep(beat)
	}
	e := c.requireEnd(keepalive.ReasonMaxAge)
	at, ok := told.Load(c.conn)
	require.True(r, ok, "OnMax gets the connection as the program knows it")
	require.GreaterOrEqual(r, at.(time.Time).Sub(c.begun), timeout)
	require.GreaterOrEqual(r, e.at.Sub(c.begun), timeout+timeout/2) // the grace begins before OnMax, and OnMax may be late
	require.False(r, e.at.Before(at.(time.Time)))
	require.Less(r, e.at.Sub(c.begun), 2*timeout+late)
}

// The peer, the handler, another goroutine and the Keeper close connections at the same time.
// Each connection has one end, see rig.requireEachEndOnce.
func endsRace(r *rig) {
	const rounds, atOnce = 4, 12
	r.serve(keepalive.Config{Timeout: 10 * tick, Closing: keepalive.Closing{Farewell: bye}})
	for range rounds {
		var racing sync.WaitGroup
		for range atOnce {
			c := r.connect()
			_ = c.say("name " + r.newName()) // the Keeper may be first
			var g *keepalive.Guard
			for other := range r.k.Guards() {
				g = other
			}
			pause := 9*tick + time.Duration(rand.Int64N(int64(3*tick)))
			racing.Go(func() { time.Sleep(pause); _ = c.say("close") })
			racing.Go(func() { time.Sleep(pause); g.Close(keepalive.ReasonEvicted) })
			racing.Go(func() { time.Sleep(pause); c.Close() })
		}
		racing.Wait()
	}
	r.eventually(func() bool { return r.k.Len() == 0 }, "all are gone")
}
