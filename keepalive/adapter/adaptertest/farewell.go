package adaptertest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func farewellTests() []test {
	all := []test{
		{name: "farewell/half/lingers", of: half, run: halfClosedPeerMayFinish},
		{name: "farewell/half/bounded", of: half, run: halfClosedPeerHasNotForEver},
		{name: "farewell/half/whole", lack: half, run: halfCloseIsWhole},
	}
	for _, mode := range []keepalive.CloseMode{keepalive.CloseGraceful, keepalive.CloseHalf} {
		all = append(all, test{name: "farewell/" + mode.String(), of: farewell, run: func(r *rig) { farewellComesFirst(r, mode, nil) }})
	}
	return append(
		all,
		test{name: "farewell/reset", of: reset, run: func(r *rig) { farewellComesFirst(r, keepalive.CloseReset, connReset()) }},
		test{name: "farewell/reset", lack: reset, run: func(r *rig) { farewellComesFirst(r, keepalive.CloseReset, nil) }},
	)
}

func bye(_ any, reason keepalive.Reason) []byte { return []byte("bye " + reason.String() + "\n") }

// The farewell, and then the end of the stream, also without a farewell.
func farewellComesFirst(r *rig, mode keepalive.CloseMode, end error) {
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
		if c.overUnix() {
			end = nil // Unix sockets have no reset
		}
		require.ErrorIs(r, err, end)
		require.NoError(r, c.Close())
		c.requireExpiry(keepalive.ReasonIdle, timeout)
	}
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

// Where nothing can be closed by halves, CloseHalf does not wait for the peer.
func halfCloseIsWhole(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{
		Mode: keepalive.CloseHalf, Timeout: 2 * eternal, Farewell: bye,
	}})
	c := r.dial()
	require.True(r, c.guard.Close(keepalive.ReasonMaxAge))
	c.requireBytes("bye max_age\n")
	c.requireEnd(keepalive.ReasonMaxAge)
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
