package adaptertest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func staleTests() []test {
	return []test{
		{name: "stale/guard", run: staleGuardGuardsNothing},
		{name: "stale/harmless", run: staleGuardHarmsNobody},
		{name: "stale/keeper", run: closedKeeperLeavesConnectionsAlone},
	}
}

func staleGuardGuardsNothing(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal})
	c := r.dial()
	require.True(r, c.guard.SetValue("a value"))
	release := c.guard.Hold()
	require.True(r, c.guard.Close(keepalive.ReasonEvicted))
	c.requireEnd(keepalive.ReasonEvicted)
	release()

	require.False(r, keepalive.Touch(c.conn))
	r.requireUnguarded(c.guard)
	require.Equal(r, "a value", c.guard.Value())
	require.Equal(r, error(keepalive.ReasonEvicted), context.Cause(c.context))
	r.requireUnguarded(nil)
	require.Nil(r, (*keepalive.Guard)(nil).Value())
}

func (r *rig) requireUnguarded(g *keepalive.Guard) {
	r.Helper()
	require.False(r, g.Touch())
	roundTrip, ok := g.Pong()
	require.False(r, ok)
	require.Zero(r, roundTrip)
	require.False(r, g.SetValue("another"))
	require.False(r, g.Close(keepalive.ReasonIdle))
	_, err := g.SetTimeout(time.Second)
	require.ErrorIs(r, err, keepalive.ErrNotGuarded)
	_, err = g.SetInterval(time.Second)
	require.ErrorIs(r, err, keepalive.ErrNotGuarded)
	require.ErrorIs(r, g.SetActivity(keepalive.ActivityRead), keepalive.ErrNotGuarded)
	_, _, ok = g.Deadline()
	require.False(r, ok)
	_, ok = g.Info()
	require.False(r, ok)
	require.Nil(r, g.RemoteAddr(context.Background()))
	require.ErrorIs(r, context.Cause(g.Context()), keepalive.ErrNotGuarded)
	release := g.Hold()
	release()
	release()
}

// New connections get the descriptors of closed ones. Whatever a program still does with a
// closed one does nothing to the new ones.
func staleGuardHarmsNobody(r *rig) {
	r.serve(keepalive.Config{Activity: keepalive.ActivityManual})
	stale := r.dialMany(10)
	for _, c := range stale {
		c.guard.Close(keepalive.ReasonLocal)
	}
	for _, c := range stale {
		r.eventually(func() bool { return len(r.endsOf(c.conn)) == 1 }, "the connection is closed")
		require.NoError(r, c.Close())
	}
	over := make(chan struct{})
	var poking sync.WaitGroup
	poking.Go(func() {
		for {
			for _, c := range stale {
				select {
				case <-over:
					return
				case <-time.After(ms):
				}
				if keepalive.Touch(c.conn) || c.guard.Touch() || c.guard.Close(keepalive.ReasonEvicted) {
					r.Error("a closed connection is guarded")
				}
				_, _ = c.guard.SetTimeout(tick)
				_ = c.guard.SetActivity(keepalive.ActivityRead)
				c.guard.Hold()
				c.guard.RemoteAddr(context.Background())
			}
		}
	})
	defer poking.Wait()
	defer close(over)
	r.attempt(func() bool { return r.dial().lives(2*timeout, "beat") })
	for _, c := range r.dialMany(10) {
		c.requireExpiry(keepalive.ReasonIdle, timeout)
	}
}

// After Keeper.Close its connections, and new ones, are open and not guarded.
func closedKeeperLeavesConnectionsAlone(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal})
	before := r.dial()
	require.True(r, before.guard.Touch())
	_, err := before.guard.SetTimeout(5 * timeout) // not before: on a busy machine a client comes late
	require.NoError(r, err)
	require.NoError(r, r.k.Close())
	r.closed = true
	after := r.dial()
	require.ErrorIs(r, context.Cause(before.context), keepalive.ErrNotGuarded)
	r.requireUnguarded(before.guard)
	r.requireUnguarded(after.guard)
	for _, rest := range []time.Duration{6 * timeout, 0} {
		for _, c := range []*client{before, after} {
			require.NoError(r, c.ask("beat"))
			require.False(r, keepalive.Touch(c.conn))
			require.Empty(r, r.endsOf(c.conn))
		}
		time.Sleep(rest)
	}
}
