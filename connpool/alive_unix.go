//go:build unix && !linux

package connpool

import (
	"errors"

	"golang.org/x/sys/unix"
)

// look asks a socket. The byte stays unread.
func look(fd uintptr) (state, error) {
	var b [1]byte
	for {
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return quiet, nil
		case err != nil:
			return quiet, err
		case n == 0:
			return closedByPeer, nil
		default:
			return unread, nil
		}
	}
}
