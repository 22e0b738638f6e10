package adaptertest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func silenceTests() []test {
	all := []test{
		{name: "silence/first message", of: firstMessage, run: firstMessageIsAwaited},
		{name: "silence/first message", lack: firstMessage, run: firstMessageIsTheFirst},
		{name: "silence/read", of: readIdle, run: readIdleEnds},
		{name: "silence/read", lack: readIdle, run: func(r *rig) { idleIsNoEnd(r, keepalive.Config{ReadIdle: timeout}, "") }},
		{name: "silence/write", of: writeIdle, run: writeIdleEnds},
		{name: "silence/write", lack: writeIdle, run: func(r *rig) { idleIsNoEnd(r, keepalive.Config{WriteIdle: timeout}, "hush") }},
		{name: "silence/write stall", of: writeIdle, run: writeStallEnds},
		{name: "address", run: addressIsThePeers},
	}
	for _, activity := range activities {
		all = append(all, test{name: "silence/" + activity.String(), of: lifeOf[activity], run: func(r *rig) { silentPeersGo(r, activity) }})
	}
	return all
}

func silentPeersGo(r *rig, activity keepalive.Activity) {
	r.serve(keepalive.Config{Activity: activity})
	clients := r.dialMany(10)
	for _, c := range clients {
		c.requireExpiry(keepalive.ReasonIdle, timeout)
		c.requireBytes("")
	}
}

// FirstMessage is for a peer without a word, Timeout for a peer silent after its first message.
func firstMessageIsAwaited(r *rig) {
	r.serve(keepalive.Config{FirstMessage: timeout, Timeout: 2 * timeout})
	begun := time.Now()
	silent := r.connect()
	speaks := r.dial()
	silent.requireBytes("")
	require.GreaterOrEqual(r, time.Since(begun), timeout)
	require.Less(r, time.Since(begun), timeout+late)
	speaks.requireExpiry(keepalive.ReasonIdle, 2*timeout)
	r.eventually(func() bool { return r.k.Stats().Closed[keepalive.ReasonFirstMessage] > 0 }, "the silent one is counted")
}

// A connection begins with its first message, so there is nothing to close before.
func firstMessageIsTheFirst(r *rig) {
	r.serve(keepalive.Config{FirstMessage: tick, Timeout: eternal})
	c := r.connect()
	time.Sleep(2 * timeout)
	require.Zero(r, r.k.Stats().Opened)
	require.NoError(r, c.ask("echo"))
	require.EqualValues(r, 1, r.k.Stats().Opened)
}

// A connection outlives a silence in one direction that the adapter can't see.
func idleIsNoEnd(r *rig, cfg keepalive.Config, line string) {
	cfg.Timeout = eternal
	r.serve(cfg)
	c := r.dial()
	for begin := time.Now(); time.Since(begin) < 3*timeout; time.Sleep(beat) {
		if line != "" {
			require.NoError(r, c.say(line))
		}
	}
	require.Empty(r, r.endsOf(c.conn))
	require.NoError(r, c.ask("echo"))
}

// A connection without bytes from its peer is closed although it is touched.
func readIdleEnds(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, ReadIdle: timeout})
	c := r.dial()
	for begin := time.Now(); len(r.endsOf(c.conn)) == 0; time.Sleep(beat) {
		require.Less(r, time.Since(begin), late)
		c.guard.Touch()
	}
	c.requireExpiry(keepalive.ReasonReadIdle, timeout)
	c.requireBytes("")
}

// A connection without bytes to its peer is closed although the peer speaks.
func writeIdleEnds(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, WriteIdle: timeout})
	c := r.dial()
	for begin := time.Now(); len(r.endsOf(c.conn)) == 0; time.Sleep(beat) {
		require.Less(r, time.Since(begin), late)
		_ = c.say("hush") // it may be closed
	}
	c.requireExpiry(keepalive.ReasonWriteIdle, timeout)
}

// A peer that takes nothing of an answer is closed although the connection is held, and touched.
func writeStallEnds(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, WriteStall: timeout})
	c := r.dial()
	defer c.guard.Hold()()
	begun := time.Now()
	require.NoError(r, c.say("flood"))
	for len(r.endsOf(c.conn)) == 0 {
		require.Less(r, time.Since(begun), late)
		c.guard.Touch()
		time.Sleep(beat)
	}
	require.GreaterOrEqual(r, c.requireEnd(keepalive.ReasonWriteStall).at.Sub(begun), timeout)
}

func addressIsThePeers(r *rig) {
	var ended atomic.Pointer[keepalive.End]
	r.serve(keepalive.Config{Timeout: eternal})
	defer r.k.Watch(func(e keepalive.End) { ended.Store(&e) })()
	c := r.dial()
	if c.overUnix() {
		return // the client has none
	}
	ctx, cancel := context.WithTimeout(context.Background(), eternal)
	defer cancel()
	remote := c.guard.RemoteAddr(ctx)
	require.NotNil(r, remote)
	require.Equal(r, c.LocalAddr().String(), remote.String())
	require.True(r, c.guard.Close(keepalive.ReasonLocal))
	r.eventually(func() bool { return ended.Load() != nil }, "Watch is told of the end")
	e := ended.Load()
	require.NotNil(r, e.Remote)
	require.Equal(r, c.LocalAddr().String(), e.Remote.String())
	require.Equal(r, keepalive.ReasonLocal, e.Reason)
}
