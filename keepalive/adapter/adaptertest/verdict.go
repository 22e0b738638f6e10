package adaptertest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func verdictTests() []test {
	return []test{
		{name: "verdict/extend", of: onIdle, run: extendedConnectionStays},
		{name: "verdict/ignore", of: onIdle, run: ignoredSilenceIsNoEnd},
		{name: "verdict/touch", of: onIdle, run: touchInOnIdleSaves},
		{name: "verdict/close", of: onIdle, run: closeInOnIdleCounts},
		{name: "verdict/blocks", of: block, run: blockedOnIdleStopsNobody},
		{name: "verdict/blocks", lack: block, run: blockedOnIdleStopsOthers},
	}
}

// known is an OnIdle for connections with a name. Without one the suite is late: the silence
// does not count.
func (r *rig) known(onIdle func(g *keepalive.Guard) keepalive.Verdict) func(any, keepalive.Reason) keepalive.Verdict {
	return func(conn any, reason keepalive.Reason) keepalive.Verdict {
		if r.nameOf(conn) == "" {
			return keepalive.Ignore
		}
		if reason != keepalive.ReasonIdle {
			r.Errorf("OnIdle for %v", reason)
		}
		return onIdle(keepalive.Of(conn))
	}
}

func extendedConnectionStays(r *rig) {
	var asked atomic.Int32
	r.serve(keepalive.Config{OnIdle: r.known(func(*keepalive.Guard) keepalive.Verdict {
		if asked.Add(1) < 3 {
			return keepalive.Extend(timeout)
		}
		return keepalive.Close
	})})
	c := r.dial()
	c.requireExpiry(keepalive.ReasonIdle, 3*timeout)
	require.EqualValues(r, 3, asked.Load())
}

// An ignored connection stays until it has been heard, and falls silent once more.
func ignoredSilenceIsNoEnd(r *rig) {
	var asked atomic.Int32
	r.serve(keepalive.Config{OnIdle: r.known(func(*keepalive.Guard) keepalive.Verdict {
		if asked.Add(1) == 1 {
			return keepalive.Ignore
		}
		return keepalive.Close
	})})
	r.attempt(func() bool {
		asked.Store(0)
		c := r.dial()
		r.eventually(func() bool { return asked.Load() > 0 }, "OnIdle is asked")
		time.Sleep(2 * timeout)
		if !c.asks("echo") { // the suite was late with the answer
			return false
		}
		c.requireExpiry(keepalive.ReasonIdle, timeout)
		return true
	})
}

func touchInOnIdleSaves(r *rig) {
	var asked atomic.Int32
	r.serve(keepalive.Config{OnIdle: r.known(func(g *keepalive.Guard) keepalive.Verdict {
		if asked.Add(1) == 1 && !g.Touch() {
			r.Error("a connection is not guarded in OnIdle")
		}
		return keepalive.Close
	})})
	r.dial().requireExpiry(keepalive.ReasonIdle, 2*timeout)
	require.EqualValues(r, 2, asked.Load())
}

// OnIdle closes the connection for a reason of its own, whatever its verdict.
func closeInOnIdleCounts(r *rig) {
	r.serve(keepalive.Config{
		Closing: keepalive.Closing{Farewell: bye},
		OnIdle: r.known(func(g *keepalive.Guard) keepalive.Verdict {
			info, ok := g.Info()
			if !ok || info.Idle < timeout {
				r.Errorf("OnIdle after %v", info.Idle)
			}
			g.Close(keepalive.ReasonTooSlow)
			return keepalive.Ignore
		}),
	})
	c := r.dial()
	c.requireExpiry(keepalive.ReasonTooSlow, timeout)
	c.requireBytes("bye too_slow\n")
}

// OnIdle blocks for one connection. All others get their answers.
func blockedOnIdleStopsNobody(r *rig) {
	others, unblock := r.blockOnIdle()
	defer unblock()
	for _, c := range others {
		require.NoError(r, c.ask("beat"))
	}
}

// OnIdle blocks for one connection. Others in its event loop get no answers until it returns.
func blockedOnIdleStopsOthers(r *rig) {
	others, unblock := r.blockOnIdle()
	defer unblock()
	for _, c := range others {
		require.NoError(r, c.say("beat"))
	}
	time.Sleep(timeout)
	answered := 0
	for _, c := range others {
		require.NoError(r, c.SetReadDeadline(time.Now().Add(ms)))
		if _, err := c.lines.Peek(1); err == nil {
			answered++
		}
		require.NoError(r, c.SetReadDeadline(time.Now().Add(eternal)))
	}
	require.Less(r, answered, len(others))
	unblock()
	for _, c := range others {
		require.NoError(r, c.hear(len(c.said)-1))
	}
}

// blockOnIdle returns some connections beside another one with a blocking OnIdle.
func (r *rig) blockOnIdle() (others []*client, unblock func()) {
	r.Helper()
	begun, over := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.serve(keepalive.Config{Timeout: eternal, OnIdle: func(any, keepalive.Reason) keepalive.Verdict {
		close(begun)
		<-over
		return keepalive.Close
	}})
	others = r.dialMany(8)
	c := r.dial()
	_, err := c.guard.SetTimeout(timeout)
	require.NoError(r, err)
	<-begun
	return others, func() { once.Do(func() { close(over) }) }
}
