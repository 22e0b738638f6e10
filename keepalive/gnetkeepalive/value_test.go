package gnetkeepalive

import (
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func TestValueIsThereInCallbacks(t *testing.T) {
	t.Parallel()
	values := make(chan any, 3)
	k := newKeeper(t, keepalive.Config{
		Timeout: 200 * time.Millisecond,
		OnIdle: func(conn any, _ keepalive.Reason) keepalive.Verdict {
			values <- keepalive.Of(conn).Value()
			return keepalive.Close
		},
		OnClose: func(conn any, _ keepalive.Reason) { values <- keepalive.Of(conn).Value() },
	})
	e := start(t, &app{
		onOpen: func(c gnet.Conn) ([]byte, gnet.Action) {
			keepalive.Of(c).SetValue("session")
			return nil, gnet.None
		},
		onClose: func(c gnet.Conn, _ error) gnet.Action {
			values <- keepalive.Of(c).Value()
			return gnet.None
		},
	}, k)
	e.dial(t)
	for range 3 { // OnIdle, gnet's OnClose, the Keeper's
		require.Equal(t, "session", <-values)
	}
}
