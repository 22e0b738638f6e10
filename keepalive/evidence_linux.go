package keepalive

import (
	"time"

	"golang.org/x/sys/unix"
)

// socketsTell reports whether sockets know when bytes last arrived. Those of TCP do.
const socketsTell = true

// ask asks a socket.
func ask(fd uintptr) report {
	r := nothing
	if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
		r.unread = n
		r.full = n > 0 && isFull(int(fd), n)
	}
	if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
		r.fill(info)
	} else {
		r.room = hasRoom(fd)
	}
	return r
}

// hasRoom reports whether a socket takes bytes: a Write that waits for that goes on once its goroutine runs.
func hasRoom(fd uintptr) bool {
	polled := [...]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(polled[:], 0)
	return err == nil && n > 0
}

// isFull reports whether the receive queue of a socket is so full that its peer may have to wait. The
// kernel counts the memory of its packets, which are larger than their bytes. By half of that the
// window of TCP may be closed (__tcp_select_window): until then, neither side has to wait for more
// room, to avoid small packets (RFC 9293, 3.8.6.2). A Unix socket charges the memory to its sender. Its buffer is as large
// by default, and each byte may have been a Write of its own. Nobody sees a smaller one here.
func isFull(fd, unread int) bool {
	// The first two of SO_MEMINFO, SK_MEMINFO_RMEM_ALLOC and SK_MEMINFO_RCVBUF, are of the form of a linger.
	queue, err := unix.GetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_MEMINFO)
	charged := int(queue.Onoff)
	if charged == 0 {
		charged = unread * leastPacket
	}
	return err == nil && (fills(charged, int(queue.Linger)) || queue.Onoff == 0 && isUnixgram(fd))
}

// isUnixgram reports whether a socket is a Unix socket for datagrams. Their number is limited, to ten by default
// (net.unix.max_dgram_qlen), and only the first one is seen: any may be one too many for the peer.
func isUnixgram(fd int) bool {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_UNIX {
		return false
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil && kind == unix.SOCK_DGRAM
}

// leastPacket is what Linux charges for a packet of one byte: SKB_TRUESIZE of it, or a little less since Linux 6.3.
const leastPacket = 768

// fill fills in what only TCP knows: when bytes last came and went. TCP keepalive counts in neither.
func (r *report) fill(info *unix.TCPInfo) {
	r.received = atLeast(info.Last_data_recv)
	r.sent = sentAtLeast(info)
	r.took = tookAtLeast(info)
	if info.Retransmits > 0 {
		// Bytes sent again by the kernel are no news. Bytes acknowledged by the peer are.
		r.sent = max(r.sent, atLeast(info.Last_ack_recv))
	}
	r.roundTrip = time.Duration(info.Rtt) * time.Microsecond
	r.taken = info.Bytes_received - uint64(r.unread)
	r.acked = info.Bytes_acked
	r.queued = int(info.Notsent_bytes)
	r.pending = r.queued > 0 || info.Unacked > 0
	if r.flying = info.Unacked > 0; r.flying {
		r.left = sentAtLeast(info)
	}
	r.busy = time.Duration(info.Busy_time) * time.Microsecond
	r.delivery, r.retransmits = info.Delivery_rate, int(info.Total_retrans)
	r.unacked = r.queued
	if flying := info.Bytes_sent - info.Bytes_retrans; info.Unacked > 0 && flying > info.Bytes_acked {
		r.unacked += int(flying - info.Bytes_acked)
	}
}

// tookAtLeast returns how long ago the peer has acknowledged new bytes, at least. It did so at
// its last acknowledgement, or before: even with a hanging program, a peer still acknowledges
// keepalives and window probes. And it did so at most a round trip and a delayed
// acknowledgement after bytes were last sent.
func tookAtLeast(info *unix.TCPInfo) time.Duration {
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

// atLeast returns a lower bound of how long ago something was, from the kernel's milliseconds.
func atLeast(ago uint32) time.Duration {
	return max(0, time.Duration(ago)*time.Millisecond-tooOld)
}

// tooOld bounds the error of the kernel's figures: something may be younger by as much.
var tooOld = roundedUp(jiffy())

// behind is how far the kernel's clock can be behind if the processor counting the jiffies does
// not run: after five jiffies (MAX_STALLED_JIFFIES) another one counts them. Bytes arriving
// meanwhile get a stamp too early by that.
var behind = 5 * jiffy()

// roundedUp returns by how much a time can be too long if it was taken from a counter of
// jiffies and rounded up to milliseconds.
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
