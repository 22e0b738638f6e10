package adaptertest

import (
	"net"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func roomTests() []test {
	return []test{
		{name: "room/full", of: reject, run: fullServerRefuses},
		{name: "room/key", of: perKey, run: peerWithTooManyIsRefused},
		{name: "room/drain", of: drain, run: drainingServerRefuses},
		{name: "room/evict", of: evict, run: idlestIsEvicted},
		{name: "room/user", of: perKey, run: userWithTooManyIsToldSo},
		{name: "room/user/evict", of: evict, run: idlestOfAUserIsEvicted},
		{name: "room/wait", of: wait, run: fullServerWaits},
		{name: "room/wait", lack: wait, run: fullServerRefusesToWait},
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

// The program knows the user of a connection after its address, and in its event loop.
func userWithTooManyIsToldSo(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Room: keepalive.Room{MaxPerUser: 2}})
	for range 2 {
		require.NoError(r, r.dial().ask("user ann"))
	}
	c := r.dial()
	require.NoError(r, c.say("user ann"))
	_, err := c.rest(0)
	require.NoError(r, err)
	c.requireEnd(keepalive.ReasonFull)
	require.NoError(r, r.dial().ask("user bob"))
	require.EqualValues(r, 1, r.k.Stats().RefusedPerUser)
}

func idlestOfAUserIsEvicted(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{Farewell: bye}, Room: keepalive.Room{
		MaxPerUser: 2, Full: keepalive.FullEvict, MinIdle: minIdle,
	}})
	other := r.dial()
	clients := r.dialMany(2)
	for _, c := range clients {
		require.NoError(r, c.ask("user ann"))
	}
	r.silence(clients[0], clients[1])
	c := r.dial()
	require.NoError(r, c.ask("user ann"))
	clients[0].requireEnd(keepalive.ReasonEvicted)
	clients[0].requireBytes("bye evicted\n")
	require.NoError(r, other.ask("echo"))
	require.NoError(r, clients[1].ask("echo"))
	require.NoError(r, c.ask("echo"))
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

// One more connection waits in the kernel's queue until there is room.
func fullServerWaits(r *rig) {
	r.serve(fullWaits)
	first := r.dial()
	second := r.connect()
	require.NoError(r, second.say("name second"))
	time.Sleep(timeout)
	require.EqualValues(r, 1, r.k.Stats().Opened)
	first.guard.Close(keepalive.ReasonLocal)
	require.NoError(r, second.hear(0))
	require.Zero(r, r.k.Stats().RefusedFull)
}

func fullServerRefusesToWait(r *rig) {
	r.serve(fullWaits)
	first := r.dial()
	r.requireRefusal(func(s keepalive.Stats) uint64 { return s.RefusedFull })
	require.NoError(r, first.ask("echo"))
}

var fullWaits = keepalive.Config{Timeout: eternal, Room: keepalive.Room{MaxConns: 1, Full: keepalive.FullWait}}

func idlestIsEvicted(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Room: keepalive.Room{MaxConns: 3, Full: keepalive.FullEvict, MinIdle: minIdle}})
	clients := r.dialMany(3)
	idlest := clients[1]
	r.silence(idlest, clients[0], clients[2])
	require.NoError(r, r.dial().ask("echo"))
	idlest.requireEnd(keepalive.ReasonEvicted)
	idlest.requireBytes("")
	require.NoError(r, clients[0].ask("echo"))
	require.NoError(r, clients[2].ask("echo"))
}

const (
	minIdle = 5 * tick

	// rewind is how far the Keeper's clock goes back when it notices that the process was stopped: a silence
	// was shorter by as much than it seemed to be.
	rewind = time.Second
)

// silence makes clients silent, until one of them is the idlest, and may be evicted.
func (r *rig) silence(idlest *client, others ...*client) {
	r.Helper()
	r.attempt(func() bool {
		require.NoError(r, idlest.ask("echo"))
		time.Sleep(2 * minIdle)
		for _, c := range others {
			require.NoError(r, c.ask("echo"))
		}
		time.Sleep(2*minIdle + rewind)
		info, ok := idlest.guard.Info()
		require.True(r, ok)
		for _, c := range others {
			if other, _ := c.guard.Info(); other.Idle >= info.Idle {
				return false // the Keeper was late, or its clock stood still
			}
		}
		return info.Idle >= minIdle+rewind
	})
}
