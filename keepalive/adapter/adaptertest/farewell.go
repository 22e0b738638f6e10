package adaptertest

import (
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func farewellTests() []test {
	all := []test{
		{name: "farewell/half/lingers", unless: overDatagrams, run: halfClosedPeerMayFinish},
		{name: "farewell/half/bounded", unless: overDatagrams, run: halfClosedPeerHasNotForEver},
	}
	for _, mode := range []keepalive.CloseMode{keepalive.CloseGraceful, keepalive.CloseHalf, keepalive.CloseReset} {
		all = append(all, test{name: "farewell/" + mode.String(), run: func(r *rig) { farewellComesFirst(r, mode) }})
	}
	return all
}

func bye(_ any, reason keepalive.Reason) []byte { return []byte("bye " + reason.String() + "\n") }

// The farewell, and then the end of the stream, also without a farewell.
func farewellComesFirst(r *rig, mode keepalive.CloseMode) {
	r.serve(keepalive.Config{Closing: keepalive.Closing{Mode: mode, Farewell: func(conn any, reason keepalive.Reason) []byte {
		if r.nameOf(conn) == "none" {
			return nil
		}
		return bye(conn, reason)
	}}})
	for _, c := range []*client{r.dial(), r.dialAs("none")} {
		want := "bye idle\n"
		if c.name == "none" {
			want = ""
		}
		got, err := c.rest(len(want))
		require.Equal(r, want, got)
		if mode != keepalive.CloseReset || err != nil {
			c.requireEndOfStream(mode, err)
		}
		require.NoError(r, c.Close())
		c.requireExpiry(keepalive.ReasonIdle, timeout)
	}
}

func (c *client) requireEndOfStream(mode keepalive.CloseMode, err error) {
	c.r.Helper()
	if mode == keepalive.CloseReset {
		require.ErrorIs(c.r, err, syscall.ECONNRESET)
		return
	}
	require.NoError(c.r, err)
}

// With CloseHalf the peer may still send after the farewell. The handler hears nothing of it,
// and the connection ends when the peer closes it.
func halfClosedPeerMayFinish(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{
		Mode: keepalive.CloseHalf, Timeout: eternal, Farewell: bye,
	}})
	c := r.dial()
	require.True(r, c.guard.Close(keepalive.ReasonMaxAge))
	c.requireBytes("bye max_age\n")
	handled := r.lines()
	for range 5 {
		time.Sleep(tick)
		require.NoError(r, c.say("echo"))
	}
	require.Empty(r, r.endsOf(c.conn), "the server waits for its peer")
	require.False(r, keepalive.Touch(c.conn))
	require.Equal(r, error(keepalive.ReasonMaxAge), contextCause(c))
	s := r.k.Stats()
	require.Equal(r, [2]int{0, 1}, [2]int{s.Conns, s.Leaving}, "Stats.Conns and Stats.Leaving")
	closed := time.Now()
	require.NoError(r, c.Close())
	require.False(r, c.requireEnd(keepalive.ReasonMaxAge).at.Before(closed))
	require.Equal(r, handled, r.lines(), "the handler hears nothing after the farewell")
}

// With CloseHalf the peer has Closing.Timeout to close its side.
func halfClosedPeerHasNotForEver(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{
		Mode: keepalive.CloseHalf, Timeout: timeout, Farewell: bye,
	}})
	c := r.dial()
	begun := time.Now()
	require.True(r, c.guard.Close(keepalive.ReasonDrain))
	c.requireBytes("bye drain\n")
	e := c.requireEnd(keepalive.ReasonDrain)
	require.GreaterOrEqual(r, e.at.Sub(begun), timeout)
	require.Less(r, e.at.Sub(begun), timeout+late)
}
