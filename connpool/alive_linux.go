package connpool

import (
	"errors"

	"golang.org/x/sys/unix"
)

// look asks a socket. It sees the end of the peer's stream even behind waiting bytes.
func look(fd uintptr) (state, error) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}}
	for {
		_, err := unix.Poll(fds, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return quiet, err
		}
		break
	}
	switch seen := fds[0].Revents; {
	case seen&unix.POLLERR != 0:
		// This takes the error from the socket. The connection is closed then anyway.
		errno, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && errno != 0 {
			err = unix.Errno(errno)
		}
		if err != nil {
			return quiet, err
		}
		return closedByPeer, nil
	case seen&(unix.POLLRDHUP|unix.POLLHUP) != 0:
		return closedByPeer, nil
	case seen&unix.POLLIN != 0:
		return unread, nil
	default:
		return quiet, nil
	}
}
