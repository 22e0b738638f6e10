//go:build unix

package conns

import "syscall"

func shut(fd uintptr)            { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) }
func shutWrite(fd uintptr) error { return syscall.Shutdown(int(fd), syscall.SHUT_WR) }

// reset makes the next close a reset.
func reset(fd uintptr) {
	_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
}
