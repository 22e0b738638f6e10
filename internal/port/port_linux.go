package port

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Shared says whether each loop has a listener of its own for the same port.
const Shared = true

// deafen has a socket drop every packet before it sees it. So an early client is neither
// reset nor refused: the kernel sends its SYN again after a second, and by then gnet listens. Where
// there are no filters, as in gVisor, it is reset.
func deafen(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		none := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0} // how many bytes of a packet to keep
		_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &none})
	})
}

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
