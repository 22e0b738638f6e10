// Package lastword says goodbye to the peer of a gnet connection.
package lastword

import (
	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// Say writes what is the last before c is closed, and returns what the kernel has not
// taken, which is for Write: all of it where other bytes wait before it. What was taken
// waits for the close, so that both are one packet: when very many are closed at once,
// packets are most of the work. It must run in the connection's event loop.
func Say(c gnet.Conn, b []byte) (rest []byte) {
	if len(b) == 0 || c.OutboundBuffered() > 0 {
		return b
	}
	n, _ := unix.SendmsgN(c.Fd(), b, nil, nil, unix.MSG_MORE|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	return b[max(n, 0):]
}
