package adaptertest

import (
	"net"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/pool"
)

func roomTests() []test {
	return []test{
		{name: "room/full", run: fullServerRefuses},
		{name: "room/key", run: peerWithTooManyIsRefused},
		{name: "room/drain", run: drainingServerRefuses},
		{name: "room/evict", run: idlestIsEvicted},
	}
}

func fullServerRefuses(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Room: keepalive.Room{MaxConns: 2}})
	first, second := r.dial(), r.dial()
	for range 3 {
		r.requireRefusal(func(s keepalive.Stats) uint64 { return s.RefusedFull })
	}
	require.NoError(r, first.ask("echo"))
	require.NoError(r, second.ask("echo"))
	require.NoError(r, second.ask("echo"))
	first.guard.Close(keepalive.ReasonLocal)
	first.requireEnd(keepalive.ReasonLocal)
	require.NoError(r, r.dial().ask("echo"), "there is room again")
}

// requireRefusal connects, and requires an end without the handler.
func (r *rig) requireRefusal(count func(s keepalive.Stats) uint64) {
	r.Helper()
	handled, refused := r.lines(), count(r.k.Stats())
	c := r.connect()
	_ = c.say("name refused") // it may be closed
	r.eventually(func() bool { return count(r.k.Stats()) > refused }, "the refusal is counted")
	c.requireRefused()
	require.Equal(r, handled, r.lines(), "the handler hears of a refused connection")
}

// lines returns how many lines were handled.
func (r *rig) lines() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handled
}

// The adapter may know the key of a connection before it is guarded, or with its first bytes.
func peerWithTooManyIsRefused(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Room: keepalive.Room{
		MaxPerKey: 2,
		Key:       func(net.Addr) string { return "all the same" },
	}})
	clients := r.dialMany(2)
	for range 3 {
		r.requireRefusal(func(s keepalive.Stats) uint64 { return s.RefusedPerKey + s.Closed[keepalive.ReasonFull] })
	}
	clients[0].guard.Close(keepalive.ReasonLocal)
	clients[0].requireEnd(keepalive.ReasonLocal)
	require.NoError(r, r.dial().ask("echo"), "the peer may come again")
}

func drainingServerRefuses(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal})
	r.drain(0)
	for range 3 {
		r.requireRefusal(func(s keepalive.Stats) uint64 { return s.RefusedDrain })
	}
	r.k.Resume()
	require.NoError(r, r.dial().ask("echo"))
}

func idlestIsEvicted(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Room: keepalive.Room{MaxConns: 3, Full: pool.EvictIdlest, MinIdle: 5 * tick}})
	clients := r.dialMany(3)
	idlest := clients[1]
	r.attempt(func() bool {
		require.NoError(r, idlest.ask("echo"))
		time.Sleep(10 * tick)
		require.NoError(r, clients[0].ask("echo"))
		require.NoError(r, clients[2].ask("echo"))
		time.Sleep(10 * tick)
		return r.k.Idlest(1)[0] == idlest.conn // or the Keeper was late
	})
	require.NoError(r, r.dial().ask("echo"))
	idlest.requireEnd(keepalive.ReasonEvicted)
	idlest.requireBytes("")
	require.NoError(r, clients[0].ask("echo"))
	require.NoError(r, clients[2].ask("echo"))
}
