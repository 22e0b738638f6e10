//go:build !unix

package udpsocket

// Unread returns -1: unknown.
func Unread(uintptr) int { return -1 }
