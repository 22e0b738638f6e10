//go:build !unix && !windows

package udpsocket

// Unread returns Plenty: unknown.
func Unread(uintptr) int { return Plenty }
