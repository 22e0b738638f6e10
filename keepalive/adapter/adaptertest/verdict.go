package adaptertest

import (
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func verdictTests() []test {
	return []test{
		{name: "verdict/extend", run: extendedConnectionStays},
		{name: "verdict/ignore", run: ignoredSilenceIsNoEnd},
		{name: "verdict/touch", run: touchInOnIdleSaves},
		{name: "verdict/close", run: closeInOnIdleCounts},
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
	c := r.dial()
	r.eventually(func() bool { return asked.Load() > 0 }, "OnIdle is asked")
	time.Sleep(2 * timeout)
	require.NoError(r, c.ask("echo"))
	c.requireExpiry(keepalive.ReasonIdle, timeout)
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
