package adaptertest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

var activities = []keepalive.Activity{
	keepalive.ActivityRead, keepalive.ActivityReadWrite, keepalive.ActivityManual, keepalive.ActivityKernel,
}

func lifeTests() []test {
	all := []test{
		{name: "touch", of: manual, run: touchIsForOneConnection},
		{name: "touch/deadline", of: manual, run: touchMovesTheDeadline},
		{name: "touch/bytes", of: manual, run: bytesAreNoTouch},
		{name: "kernel", of: kernel, run: kernelIsAsked},
		{name: "kernel", lack: kernel, run: kernelIsRead},
	}
	for _, activity := range activities {
		all = append(all, test{name: "life/" + activity.String(), of: lifeOf[activity], run: func(r *rig) { livingPeerStays(r, activity) }})
	}
	return all
}

// With ActivityKernel nobody has to tell of bytes.
func kernelIsAsked(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Activity: keepalive.ActivityKernel})
	require.False(r, readsMove(r.dial()))
}

// Without a socket ActivityKernel is ActivityRead.
func kernelIsRead(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Activity: keepalive.ActivityKernel})
	require.True(r, readsMove(r.dial()))
}

// readsMove reports whether bytes that were read move the deadline.
func readsMove(c *client) (moved bool) {
	c.r.attempt(func() bool {
		time.Sleep(10 * tick)
		before, _ := c.guard.Info()
		begun := time.Now()
		c.guard.Binding().Read()
		after, ok := c.guard.Info()
		require.True(c.r, ok)
		moved = after.Idle < before.Idle-5*tick
		return before.Idle >= 8*tick && time.Since(begun) < tick // or the machine was too slow to tell
	})
	return moved
}

func livingPeerStays(r *rig, activity keepalive.Activity) {
	r.serve(keepalive.Config{Activity: activity})
	line := "echo"
	if activity == keepalive.ActivityManual {
		line = "beat"
	}
	r.attempt(func() bool { return r.dial().lives(4*timeout, line) })
}

// One of two connections is touched. The other one goes.
func touchIsForOneConnection(r *rig) {
	r.serve(keepalive.Config{Activity: keepalive.ActivityManual})
	r.attempt(func() bool {
		silent, living := r.dial(), r.dial()
		for len(r.endsOf(silent.conn)) == 0 {
			if !living.lives(beat, "beat") {
				return false
			}
		}
		silent.requireExpiry(keepalive.ReasonIdle, timeout)
		return living.lives(timeout, "beat")
	})
}

func touchMovesTheDeadline(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Activity: keepalive.ActivityManual})
	touched, other := r.dial(), r.dial()
	r.attempt(func() bool {
		time.Sleep(10 * tick)
		before := deadline(other)
		time.Sleep(10 * tick)
		require.NoError(r, touched.ask("beat"))
		require.NoError(r, other.ask("echo"))
		beat := touched.said[len(touched.said)-1]
		require.GreaterOrEqual(r, deadline(touched).Sub(beat.begun), eternal-ms)
		return deadline(other).Sub(before) < 5*tick // or the Keeper was late
	})
}

// deadline returns the deadline of a connection. Its precision is a millisecond.
func deadline(c *client) (at time.Time) {
	c.r.Helper()
	c.r.attempt(func() bool {
		begun := time.Now()
		deadline, reason, ok := c.guard.Deadline()
		require.True(c.r, ok)
		require.Equal(c.r, keepalive.ReasonIdle, reason)
		at = deadline
		return time.Since(begun) < ms
	})
	return at
}

// With ActivityManual, bytes alone don't keep a connection.
func bytesAreNoTouch(r *rig) {
	r.serve(keepalive.Config{Activity: keepalive.ActivityManual})
	c := r.dial()
	for begin := time.Now(); len(r.endsOf(c.conn)) == 0; time.Sleep(beat) {
		require.Less(r, time.Since(begin), late)
		_ = c.say("hush") // it may be closed
	}
	c.requireExpiry(keepalive.ReasonIdle, timeout)
}
