package port

import (
	"os"

	"golang.org/x/sys/unix"
)

// Shared says whether each loop has a listener of its own for the same port.
const Shared = true

// share lets other sockets of this user have the port of c too.
func share(c socket) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	err = raw.Control(func(fd uintptr) {
		serr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	if err == nil {
		err = os.NewSyscallError("setsockopt", serr)
	}
	return err
}
