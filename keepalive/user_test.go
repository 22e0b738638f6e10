package keepalive

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What the program keeps with a connection is there in every callback, also if the program
// knows the connection as TLS around ours.
func TestValueIsThereInCallbacks(t *testing.T) {
	t.Parallel()
	values := make(chan any, 2)
	k := newKeeper(t, Config{
		Timeout: eternal,
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
	_, err = guard.SetTimeout(200 * ms)
	require.NoError(t, err)
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

// A context that is asked for when the end has begun is done.
func TestContextDuringTheFarewellIsDone(t *testing.T) {
	t.Parallel()
	saying, said := make(chan bool), make(chan bool)
	k := newKeeper(t, Config{Closing: Closing{Farewell: func(any, Reason) []byte {
		close(saying)
		<-said
		return nil
	}}})
	here, there := net.Pipe()
	defer there.Close()
	g := Of(k.Conn(here))
	g.SetValue("session")
	g.Close(ReasonLocal)
	<-saying
	ctx := g.Context()
	require.ErrorIs(t, context.Cause(ctx), ReasonLocal)
	close(said)
}

// logging calls a function for each line.
type logging struct {
	slog.Handler
	f func()
}

func (l logging) Enabled(context.Context, slog.Level) bool { return true }
func (l logging) Handle(context.Context, slog.Record) error {
	l.f()
	return nil
}

// The Logger is the user's, and may ask about the connection.
func TestLoggerMayAskTheGuard(t *testing.T) {
	t.Parallel()
	if !socketsTell {
		t.Skip("ActivityKernel is for systems whose sockets tell")
	}
	var g *Guard
	asked := 0
	k := newKeeper(t, Config{Logger: slog.New(logging{slog.DiscardHandler, func() {
		g.Value()
		asked++
	}})})
	here, there := net.Pipe()
	defer there.Close()
	g = Of(k.Conn(here))
	require.NoError(t, g.SetActivity(ActivityKernel))
	require.Positive(t, asked)
}

// A timeout of a connection's own may be shorter than the sleep of the hand.
func TestShortTimeoutOfItsOwnIsExact(t *testing.T) {
	for off := range 12 {
		synctest.Test(t, func(t *testing.T) {
			closed := make(chan struct{})
			k := newKeeper(t, Config{OnClose: func(any, Reason) { close(closed) }})
			here, there := net.Pipe()
			defer there.Close()
			c := k.Conn(here)
			time.Sleep(time.Second + time.Duration(off)*9700*time.Microsecond)
			begun := time.Now()
			_, err := Of(c).SetTimeout(50 * ms)
			require.NoError(t, err)
			<-closed
			require.GreaterOrEqual(t, time.Since(begun), 50*ms)
			require.LessOrEqual(t, time.Since(begun), 50*ms+120*ms)
		})
	}
}
