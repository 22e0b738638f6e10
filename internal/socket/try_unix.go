//go:build unix

package socket

import (
	"errors"
	"syscall"
)

// CanTry reports whether this system has TryDrop and TryWriteLast.
const CanTry = true

// TryDrop reads what a socket of package net has received, and drops it. It does not wait, and neither does it for another
// reader. It returns how many bytes that were, at most a few hundred KiB, and whether the peer sends no more.
func TryDrop(raw syscall.RawConn) (n int, over bool) {
	buf := make([]byte, 16<<10)
	err := raw.Control(func(fd uintptr) {
		for range 16 {
			m, err := syscall.Read(int(fd), buf)
			switch {
			case errors.Is(err, syscall.EINTR):
			case err != nil:
				over = !errors.Is(err, syscall.EAGAIN)
				return
			case m == 0:
				over = true
				return
			}
			n += max(m, 0)
		}
	})
	return n, over || err != nil
}

// TryWriteLast writes as much of p as there is room for, and ends our side of the connection.
func TryWriteLast(raw syscall.RawConn, p []byte) {
	_ = raw.Control(func(fd uintptr) {
		_, _ = syscall.Write(int(fd), p)
		_ = syscall.Shutdown(int(fd), syscall.SHUT_WR)
	})
}
