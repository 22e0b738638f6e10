//go:build !unix

package socket

import "syscall"

// CanTry reports whether this system has TryDrop and TryWriteLast.
const CanTry = false

// TryDrop reads nothing here.
func TryDrop(syscall.RawConn, []byte) (n int, over bool) { return 0, true }

// TryWriteLast writes nothing here.
func TryWriteLast(syscall.RawConn, []byte) {}
