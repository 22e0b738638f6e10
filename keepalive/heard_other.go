//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package keepalive

// socketsTell says that a socket knows when bytes last arrived. Here it is not
// asked.
const socketsTell = false

// behind is how far the clock of those that know can be behind.
const behind = 0

// SocketTells reports whether a socket knows when bytes last arrived, so that an
// adapter may miss some: Ask says so.
func SocketTells(uintptr) bool { return socketsTell }

func ask(uintptr) evidence { return nothing }
