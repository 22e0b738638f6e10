package keepalive

import (
	"time"

	"golang.org/x/sys/unix"
)

// socketsTell says that a socket of TCP knows when bytes last arrived.
const socketsTell = true

// socketTells reports whether a socket knows when bytes last arrived. A socket of MPTCP would
// tell of one of its paths only.
func socketTells(fd uintptr) bool {
	protocol, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL)
	return err == nil && protocol == unix.IPPROTO_TCP
}

// ask asks a socket. Only TCP knows when bytes last came and went. TCP keepalive counts in
// neither.
func ask(fd uintptr) evidence {
	e := nothing
	if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
		e.unread = n
	}
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return e
	}
	e.received = atLeast(info.Last_data_recv)
	e.sent = sentAtLeast(info)
	e.acked = ackedAtLeast(info)
	if info.Retransmits > 0 {
		// Bytes that the kernel sends again are no news. Bytes that the peer has acknowledged are.
		e.sent = max(e.sent, atLeast(info.Last_ack_recv))
	}
	e.taken = info.Bytes_received - uint64(e.unread)
	e.answered = info.Bytes_acked
	e.pending = info.Notsent_bytes > 0 || info.Unacked > 0
	return e
}

// ackedAtLeast returns how long ago the peer has acknowledged new bytes, at least. It did so
// at its last acknowledgement, or before: a peer whose program hangs still acknowledges
// keepalives, and questions whether its window has opened. And it did so at most a round
// trip and a delayed acknowledgement after bytes were last sent.
func ackedAtLeast(info *unix.TCPInfo) time.Duration {
	roundTrip := time.Duration(info.Rtt+4*info.Rttvar) * time.Microsecond
	return max(0, atLeast(info.Last_ack_recv), sentAtLeast(info)-roundTrip-delayedAck)
}

// sentAtLeast returns how long ago new bytes were last sent, at least. A peer without room for
// them drops them, and says so. The kernel sends them again, each time after twice as long. With
// the window closed it counts no retransmits, but it doubles Rto and counts in Backoff. The next
// acknowledgement of new bytes ends both, if there are timestamps.
func sentAtLeast(info *unix.TCPInfo) time.Duration {
	sent := atLeast(info.Last_data_sent)
	if info.Unacked > 0 && info.Options&timestamps != 0 {
		sent += time.Duration(info.Rto-info.Rto>>info.Backoff) * time.Microsecond
	}
	return sent
}

// timestamps is TCPI_OPT_TIMESTAMPS of linux/tcp.h.
const timestamps = 1

// delayedAck is for how long Linux delays an acknowledgement at most (TCP_DELACK_MAX).
const delayedAck = 200 * time.Millisecond

// atLeast returns how long ago something was for certain if the kernel says that it was so
// many milliseconds ago.
func atLeast(ago uint32) time.Duration {
	return max(0, time.Duration(ago)*time.Millisecond-tooOld)
}

// tooOld is how much older than it is the kernel can say that something is.
var tooOld = roundedUp(jiffy())

// behind is how far the kernel's clock can be behind if the processor that counts the jiffies
// does not run: after five jiffies (MAX_STALLED_JIFFIES) another one counts them. What arrives
// meanwhile is stamped too early by that.
var behind = 5 * jiffy()

// roundedUp returns how much too long a time can be that was taken from a counter of jiffies
// and rounded up to milliseconds.
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
