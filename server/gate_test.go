package server

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// A connection counts until its descriptor is closed, although MaxConns does not count it
// during its farewell.
func TestThoseThatAreBeingClosedHaveTheirDescriptorsStill(t *testing.T) {
	for name, listener := range map[string]func() net.Listener{
		"Addr":     func() net.Listener { return nil },
		"Listener": func() net.Listener { return listen(t) },
	} {
		t.Run(name, func(t *testing.T) {
			r := startOn(t, listener(), Config{
				Loops: 1,
				Config: keepalive.Config{
					Room: keepalive.Room{MaxConns: 100}, FirstMessage: timeout,
					Closing: keepalive.Closing{Mode: keepalive.CloseHalf, Timeout: eternal},
				},
			})
			r.most.Store(3)
			var leaving []net.Conn
			for range 3 {
				leaving = append(leaving, r.dial(t))
			}
			require.Eventually(t, func() bool { return r.Stats().Leaving == 3 }, eternal, ms)
			require.Equal(t, "ERR too many connections\n", rest(t, r.dial(t)))
			require.EqualValues(t, 1, r.Stats().Crowded)
			require.EqualValues(t, 3, r.Stats().Opened, "nobody behind the gate has heard of it")

			require.NoError(t, leaving[0].Close())
			require.Eventually(t, func() bool { return r.Stats().Leaving == 2 }, eternal, ms)
			require.Equal(t, "PONG\n", ask(t, r.dial(t), "PING\n"))
		})
	}
}
