//go:build unix

package socket

import (
	"errors"
	"syscall"
)

// CanTry reports whether this system has TryDrop and TryWriteLast.
const CanTry = true

// TryDrop reads what a socket of package net has received into buf, and drops it: 16 times as much at most. It waits neither
// for bytes nor for another reader. It returns how many bytes that were, and whether the peer sends no more.
func TryDrop(raw syscall.RawConn, buf []byte) (n int, over bool) {
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
