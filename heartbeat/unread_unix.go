//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package heartbeat

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unread returns how many bytes wait in the socket of a connection to be read, or 0 if it can't
// tell.
func unread(c net.Conn) (n int) {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if waiting, err := unix.IoctlGetInt(int(fd), fionread); err == nil {
			n = waiting
		}
	})
	return n
}
