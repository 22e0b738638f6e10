package server

import (
	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// writeLast writes what is the last before c is closed. It waits for the close, so
// that both are one packet: when very many are closed at once, packets are most of
// the work.
func writeLast(c gnet.Conn, b []byte) {
	if c.OutboundBuffered() > 0 {
		_, _ = c.Write(b) // behind what waits
		return
	}
	_ = unix.Sendto(c.Fd(), b, unix.MSG_MORE|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
}
