//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package socket

import "golang.org/x/sys/unix"

// fionread is FIONREAD of sys/filio.h, _IOR('f', 127, int), missing in x/sys/unix.
const fionread = 0x4004667f

// Unread returns how many bytes wait in a socket, or 0 if it does not tell.
func Unread(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), fionread)
	if err != nil {
		return 0
	}
	return n
}

// ReceiveBuffer returns how many bytes the receive queue of a socket takes, or 0 if it does not tell.
func ReceiveBuffer(fd uintptr) int {
	size, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return 0
	}
	return size
}
