package keepalive

import (
	"time"

	"golang.org/x/sys/unix"
)

// socketsTell says that a socket of TCP knows when bytes last arrived.
const socketsTell = true

// ask asks a socket. When bytes last came and went is known of TCP only. TCP
// keepalive counts in neither.
func ask(fd uintptr) evidence {
	e := nothing
	if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
		e.unread = n
	}
	if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
		e.received = time.Duration(info.Last_data_recv) * time.Millisecond
		e.sent = time.Duration(info.Last_data_sent) * time.Millisecond
		if info.Retransmits > 0 {
			// What the kernel sends again is no news. What the peer has
			// acknowledged is.
			e.sent = max(e.sent, time.Duration(info.Last_ack_recv)*time.Millisecond)
		}
		e.moved = info.Bytes_received - uint64(e.unread) + info.Bytes_acked
	}
	return e
}
