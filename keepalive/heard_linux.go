package keepalive

import (
	"time"

	"golang.org/x/sys/unix"
)

// socketsTell says that a socket of TCP knows when bytes last arrived.
const socketsTell = true

// SocketTells reports whether a socket knows when bytes last arrived, so that an
// adapter may miss some: Ask says so. A socket of MPTCP would say it of one of its
// paths only.
func SocketTells(fd uintptr) bool {
	protocol, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL)
	return err == nil && protocol == unix.IPPROTO_TCP
}

// ask asks a socket. When bytes last came and went is known of TCP only. TCP
// keepalive counts in neither.
func ask(fd uintptr) evidence {
	e := nothing
	if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
		e.unread = n
	}
	if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
		e.received = atLeast(info.Last_data_recv)
		e.sent = atLeast(info.Last_data_sent)
		if info.Retransmits > 0 {
			// What the kernel sends again is no news. What the peer has
			// acknowledged is.
			e.sent = max(e.sent, atLeast(info.Last_ack_recv))
		}
		e.taken = info.Bytes_received - uint64(e.unread)
		e.acked = info.Bytes_acked
	}
	return e
}

// atLeast returns how long ago something was for certain that the kernel says was
// so many milliseconds ago.
func atLeast(ago uint32) time.Duration {
	return max(0, time.Duration(ago)*time.Millisecond-tooOld)
}

// tooOld is how much older than it is the kernel can say that something is.
var tooOld = roundedUp(jiffy())

// behind is how far the kernel's clock can be behind, on a machine on which the
// processor that counts the jiffies is not run: after five (MAX_STALLED_JIFFIES) another
// one counts them. What arrives meanwhile is stamped too early by that.
var behind = 5 * jiffy()

// roundedUp returns how much too long a time can be that was taken from a counter
// which goes up once per jiffy, and was rounded up to milliseconds.
func roundedUp(jiffy time.Duration) time.Duration {
	if jiffy%time.Millisecond == 0 {
		return jiffy
	}
	return jiffy + time.Millisecond
}

// jiffy returns how often the kernel's own clock goes on: 1 to 10 ms.
func jiffy() time.Duration {
	var res unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &res); err != nil {
		return 10 * time.Millisecond
	}
	return time.Duration(res.Nano())
}
