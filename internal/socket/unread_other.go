//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd || windows)

package socket

// Unread returns 0: sockets are not asked here.
func Unread(uintptr) int { return 0 }

// ReceiveBuffer returns 0, too.
func ReceiveBuffer(uintptr) int { return 0 }
