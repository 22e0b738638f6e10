package keepalive

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What the program keeps with a connection is there in every callback, also if the program
// knows the connection as TLS around ours.
func TestValueIsThereInCallbacks(t *testing.T) {
	t.Parallel()
	values := make(chan any, 2)
	k := newKeeper(t, Config{
		Timeout: 200 * time.Millisecond,
		OnIdle: func(conn any, _ Reason) Verdict {
			values <- Of(conn).Value()
			return Close
		},
		OnClose: func(conn any, _ Reason) { values <- Of(conn).Value() },
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	peer, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer peer.Close()
	inner, err := k.Listener(ln).Accept()
	require.NoError(t, err)
	conn := tls.Server(inner, &tls.Config{})
	guard := Of(conn)
	require.True(t, guard.SetValue("session"))
	require.Equal(t, "session", <-values)
	require.Equal(t, "session", <-values)

	require.Eventually(t, func() bool { return !guard.SetValue("later") }, eternal, ms, "it guards nothing any more")
	require.False(t, guard.Touch())
	require.Equal(t, "session", guard.Value())
	require.Same(t, guard, Of(conn))
}

func TestNothingIsKeptWithConnectionsOfNobody(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	require.Nil(t, Of(here))
	require.False(t, Of(here).SetValue("session"))
	require.Nil(t, Of(here).Value())
}
