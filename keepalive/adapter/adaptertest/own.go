package adaptertest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func ownTests() []test {
	return []test{
		{name: "own/timeout", of: ownTimeouts, run: ownTimeout},
		{name: "own/interval", of: ownTimeouts, run: ownInterval},
		{name: "own/activity", of: ownTimeouts, run: ownActivity},
		{name: "own/hold", of: hold, run: heldConnectionStays},
	}
}

// One connection has a longer timeout of its own, and another one a shorter.
func ownTimeout(r *rig) {
	r.serve(keepalive.Config{Timeout: 2 * timeout})
	own := func(d time.Duration) (c *client) {
		r.attempt(func() bool {
			c = r.dial()
			set, err := c.guard.SetTimeout(d)
			info, ok := c.guard.Info()
			if !c.fresh() {
				return false
			}
			require.NoError(r, err)
			require.Equal(r, d, set)
			require.True(r, ok)
			require.Equal(r, d, info.Timeout)
			return true
		})
		return c
	}
	longer, shorter := own(4*timeout), own(timeout)
	shorter.requireExpiry(keepalive.ReasonIdle, timeout)
	longer.requireExpiry(keepalive.ReasonIdle, 4*timeout)
}

func ownInterval(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Interval: keepalive.Interval{Multiplier: 2}})
	c := r.dial()
	set, err := c.guard.SetInterval(time.Hour)
	require.NoError(r, err)
	require.Equal(r, 2*time.Hour, set)
	set, err = c.guard.SetInterval(0)
	require.NoError(r, err)
	require.Equal(r, eternal, set, "that of the config again")
	set, err = c.guard.SetInterval(timeout / 2)
	require.NoError(r, err)
	require.Equal(r, timeout, set)
	c.requireExpiry(keepalive.ReasonIdle, timeout)
}

// Bytes are life of a connection until its activity is changed. Then only a touch is.
func ownActivity(r *rig) {
	r.serve(keepalive.Config{Activity: keepalive.ActivityRead})
	r.attempt(func() bool {
		c := r.dial()
		if !c.lives(2*timeout, "echo") {
			return false
		}
		begun := time.Now()
		err := c.guard.SetActivity(keepalive.ActivityManual)
		if !c.fresh() {
			return false
		}
		require.NoError(r, err)
		for len(r.endsOf(c.conn)) == 0 {
			require.Less(r, time.Since(begun), timeout+late)
			_ = c.say("hush") // it may be closed
			time.Sleep(beat)
		}
		require.GreaterOrEqual(r, c.requireEnd(keepalive.ReasonIdle).at.Sub(begun), timeout)
		return true
	})
}

func heldConnectionStays(r *rig) {
	r.serve(keepalive.Config{})
	var c *client
	var release func()
	r.attempt(func() bool {
		c = r.dial()
		release = c.guard.Hold()
		return c.fresh()
	})
	time.Sleep(3 * timeout)
	at, reason, ok := c.guard.Deadline()
	require.True(r, ok)
	require.Zero(r, reason)
	require.True(r, at.IsZero())
	require.Empty(r, r.endsOf(c.conn))
	begun := time.Now()
	release()
	e := c.requireEnd(keepalive.ReasonIdle)
	require.GreaterOrEqual(r, e.at.Sub(begun), timeout)
	require.Less(r, e.at.Sub(begun), timeout+2*tick+late)
}
