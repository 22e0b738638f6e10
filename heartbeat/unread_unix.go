//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package heartbeat

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// unread returns how many bytes wait in a socket to be read, or 0 if it can't tell.
func unread(raw syscall.RawConn) (n int) {
	_ = raw.Control(func(fd uintptr) {
		if waiting, err := unix.IoctlGetInt(int(fd), fionread); err == nil {
			n = waiting
		}
	})
	return n
}
