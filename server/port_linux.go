package server

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sharesPorts says that each loop has a listener of its own for the same port.
const sharesPorts = true

// sharePort lets other listeners of this user have the port of ln too.
func sharePort(ln net.Listener) error {
	raw, err := ln.(*net.TCPListener).SyscallConn()
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
