package keepalive

import (
	"net"

	"github.com/heartwheel-go/heartwheel/internal/socket"
)

// askSocket calls f with the socket of a connection, or of the one inside it. It returns
// socket.ErrNone if none shows a socket.
func askSocket(c net.Conn, unwrap func(net.Conn) net.Conn, f func(fd uintptr)) error {
	raw, _, err := socket.Of(c, unwrap)
	if err != nil {
		return err
	}
	return raw.Control(f)
}

// unwrap returns Config.Unwrap, or nil. A panic in it is reported, and leads nowhere.
func (k *Keeper) unwrap() func(net.Conn) net.Conn {
	unwrap := k.policy.Load().Unwrap
	if unwrap == nil {
		return nil
	}
	return func(c net.Conn) (inner net.Conn) {
		k.call("Unwrap", func() { inner = unwrap(c) })
		return inner
	}
}
