//go:build unix

package conns

import "syscall"

func shut(fd uintptr)            { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) }
func shutWrite(fd uintptr) error { return syscall.Shutdown(int(fd), syscall.SHUT_WR) }

// reset makes the next close a reset.
func reset(fd uintptr) {
	_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
}

// readable reports whether bytes wait in the socket.
func readable(fd uintptr) bool {
	n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == nil && n > 0
}
