//go:build !linux

package udpsocket

// Lost returns 0: unknown.
func Lost(uintptr) uint32 { return 0 }
