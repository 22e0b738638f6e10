package tcpsocket

import "golang.org/x/sys/unix"

// Tells reports whether a socket knows what has become of its bytes, and when others came. A socket of
// MPTCP would tell of one of its paths only.
func Tells(fd uintptr) bool {
	protocol, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL)
	return err == nil && protocol == unix.IPPROTO_TCP
}

// AskSent returns what a socket knows of the bytes written to it. It returns false if the socket does not
// tell, or the peer has not acknowledged any: some kernels don't count them.
func AskSent(fd uintptr) (Sent, bool) {
	if !Tells(fd) {
		return Sent{}, false
	}
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || info.Bytes_acked == 0 {
		return Sent{}, false
	}
	return Sent{
		Written:      info.Bytes_sent - info.Bytes_retrans + uint64(info.Notsent_bytes),
		Acknowledged: info.Bytes_acked,
		Pending:      info.Unacked > 0 || info.Notsent_bytes > 0,
	}, true
}
