package gnetsocket

import (
	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// SayLast writes the last bytes of a connection before its close, and returns the rest that the kernel
// has not taken, for Write: all of them if others wait before them. The kernel keeps the taken bytes
// for the packet of the close. When very many connections are closed at once, packets are most of the
// work. It must run in the connection's event loop.
func SayLast(c gnet.Conn, b []byte) (rest []byte) {
	if len(b) == 0 || c.OutboundBuffered() > 0 {
		return b
	}
	n, _ := unix.SendmsgN(c.Fd(), b, nil, nil, unix.MSG_MORE|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	return b[max(n, 0):]
}
