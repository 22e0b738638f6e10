//go:build unix

package udpsocket

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Unread returns an upper bound of how many datagrams wait in a socket: 0 if none does, and
// otherwise as many as fit in its buffer. A socket in error can be read at once, so it counts as
// one with datagrams.
func Unread(fd uintptr) int {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); n == 0 && err == nil {
		return 0
	}
	room, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		room = maxRoom
	}
	return room/smallest() + 1 // the last one may exceed the buffer
}

// maxRoom is for a socket that does not tell the size of its buffer.
const maxRoom = 64 << 20

// smallest returns the least bytes of the buffer for one datagram. Linux counts its own two
// structs, 576 bytes on all machines of 64 bits. Others count the address.
func smallest() int {
	if runtime.GOOS == "linux" {
		return 256
	}
	return 16
}
