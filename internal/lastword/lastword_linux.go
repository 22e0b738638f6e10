// Package lastword says goodbye to the peer of a gnet connection.
package lastword

import (
	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// Say writes what is the last before c is closed. It waits for the close, so
// that both are one packet: when very many are closed at once, packets are most of
// the work.
func Say(c gnet.Conn, b []byte) {
	if len(b) == 0 {
		return
	}
	if c.OutboundBuffered() > 0 {
		_, _ = c.Write(b) // behind what waits
		return
	}
	_ = unix.Sendto(c.Fd(), b, unix.MSG_MORE|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
}
