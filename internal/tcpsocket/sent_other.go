//go:build !linux

package tcpsocket

// Tells reports whether a socket knows what has become of its bytes. Here none does.
func Tells(uintptr) bool { return false }

// AskSent returns false: here no socket tells.
func AskSent(uintptr) (Sent, bool) { return Sent{}, false }
