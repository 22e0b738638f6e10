//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package heartbeat

import (
	"net"

	"golang.org/x/sys/unix"

	"github.com/heartwheel-go/heartwheel/internal/socket"
)

// unread returns how many bytes wait in the socket of a connection, or of the one inside it, to be
// read, or 0 if it can't tell.
func unread(c net.Conn) (n int) {
	raw, _, err := socket.Of(c, nil)
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
