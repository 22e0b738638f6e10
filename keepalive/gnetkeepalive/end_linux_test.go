package gnetkeepalive

import (
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Farewell runs in the event loop, so it can close the connection. Its descriptor may be
// somebody else's then, here a socket pair's.
func TestCallbackThatClosesTheConnectionHarmsNobody(t *testing.T) {
	for _, mode := range []keepalive.CloseMode{keepalive.CloseGraceful, keepalive.CloseHalf, keepalive.CloseReset} {
		t.Run(mode.String(), func(t *testing.T) {
			pairs := make(chan [2]int, 1)
			w := observe(t, keepalive.Config{
				Closing: keepalive.Closing{
					Mode: mode,
					Farewell: func(conn any, _ keepalive.Reason) []byte {
						c := conn.(gnet.Conn)
						_ = c.EventLoop().Close(c)
						pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
						if err != nil {
							t.Error(err)
						}
						pairs <- pair
						return []byte(bye)
					},
				},
			}, &app{})
			c := w.dial(t)
			requireClosed(t, c)
			w.requireEnd(t, c, keepalive.ReasonIdle)
			pair := <-pairs
			defer unix.Close(pair[0])
			defer unix.Close(pair[1])
			time.Sleep(10 * ms)
			for _, fd := range pair {
				n, err := unix.Read(fd, make([]byte, 10))
				require.ErrorIs(t, err, unix.EAGAIN, "%d bytes", n)
			}
		})
	}
}
